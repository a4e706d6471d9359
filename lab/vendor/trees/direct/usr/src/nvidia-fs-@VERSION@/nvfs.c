/* Stand-in for tests, not NVIDIA's software: says with which driver it was built. */
#include <linux/module.h>
#include "nv-p2p.h"

MODULE_DESCRIPTION("Stand-in for tests, not NVIDIA's software");
MODULE_VERSION("@VERSION@");
MODULE_INFO(built_with, STAND_IN_DRIVER);
MODULE_LICENSE("GPL");
