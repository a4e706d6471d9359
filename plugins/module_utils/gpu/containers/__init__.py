"""Give containers GPUs: engines, CDI, enroot and pyxis."""
