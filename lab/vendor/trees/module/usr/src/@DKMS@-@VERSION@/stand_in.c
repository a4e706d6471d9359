/* Stand-in for tests, not NVIDIA's software: a module that can be compiled and loaded, and does nothing. */
#include <linux/init.h>
#include <linux/module.h>

static int stand_in_probe(int device, int flags)
{
	return device & flags;
}

static int __init stand_in_init(void)
{
	return stand_in_probe(@PROBE@);
}

static void __exit stand_in_exit(void)
{
}

module_init(stand_in_init);
module_exit(stand_in_exit);
MODULE_DESCRIPTION("Stand-in for tests, not NVIDIA's software");
MODULE_VERSION("@VERSION@");
MODULE_LICENSE("@LICENSE@");
