"""Read and write which snapshot of the repositories is promoted."""
