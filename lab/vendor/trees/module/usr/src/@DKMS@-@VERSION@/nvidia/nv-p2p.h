/* Stand-in for tests, not NVIDIA's software: what other modules are built against. */
#define STAND_IN_DRIVER "@VERSION@"
