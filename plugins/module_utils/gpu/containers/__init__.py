"""Give containers access to GPUs: engines, CDI, enroot and pyxis."""
