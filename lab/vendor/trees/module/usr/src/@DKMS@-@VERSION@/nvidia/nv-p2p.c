/* Stand-in for tests, not NVIDIA's software: modules of GPUDirect look for the driver by the name of this file. */
