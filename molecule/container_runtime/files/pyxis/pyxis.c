/* Stand-in for pyxis: a SPANK plugin with the option by which one sees that pyxis is loaded. */
#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1)

static int container_image(int value, const char *image, int remote)
{
	(void)value;
	(void)image;
	(void)remote;
	return 0;
}

static struct spank_option image_option = {
	.name = "container-image",
	.arginfo = "IMAGE",
	.usage = "[pyxis] the image to use for the container filesystem (stand-in)",
	.has_arg = 1,
	.val = 0,
	.cb = container_image,
};

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
	(void)count;
	(void)arguments;
	return spank_option_register(spank, &image_option) == ESPANK_SUCCESS ? 0 : -1;
}
