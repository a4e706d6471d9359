/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A fake libnvidia-ml.so.1 for tests. Prototypes and structs are those of NVIDIA's NVML API reference.
 *
 * Each call reads the scenario file that FAKE_NVML_SCENARIO names, so a test can change it between two calls. A line is
 *
 *     GPU FUNCTION KEY VALUE        3 nvmlDeviceGetRemappedRows pending 1
 *
 * GPU or FUNCTION may be `*`, and the last line that matches counts. KEY `rc` is the return code, `hang` stops the call for ever, `slow`
 * delays it by milliseconds; other keys are below, in each function. Calls without a GPU have the GPU -1. Without a scenario, the machine
 * has eight healthy GPUs.
 *
 * FAKE_NVML_MARKER names a file that gets one line when the library is loaded and one when nvmlInit_v2 is called. The real nvmlInit_v2
 * creates /dev/nvidiactl.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, VERSION_MISMATCH = 25, ALL = -1, LINKS = 18 };

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;

typedef struct {
    unsigned int version;
    unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor, volatileUncParity, volatileUncSecDed, volatileCor,
        aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie, aggregateUncBucketMcu, aggregateUncBucketOther;
    unsigned int bThresholdExceeded;
} nvmlEccSramErrorStatus_v1_t;

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned int version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned char state;
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
    unsigned int version;
    int marginTemperature;
} nvmlMarginTemperature_v1_t;

typedef union {
    double dVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    int siVal;
    unsigned short usVal;
} nvmlValue_t;

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

#define VERSION(type, number) ((unsigned int)sizeof(type) | ((unsigned int)(number) << 24))

static void mark(const char *what)
{
    const char *path = getenv("FAKE_NVML_MARKER");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", what);
        fclose(file);
    }
}

__attribute__((constructor)) static void loaded(void)
{
    mark("loaded");
}

/* Copy the text that the scenario has for a key into `found`, or leave it as it is. */
static void text(int gpu, const char *function, const char *key, char *found, size_t size)
{
    const char *path = getenv("FAKE_NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256], who[16], what[64], name[32], value[64];
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#' || sscanf(line, "%15s %63s %31s %63s", who, what, name, value) != 4)
            continue;
        if ((strcmp(who, "*") && atoi(who) != gpu) || (strcmp(what, "*") && strcmp(what, function)) || strcmp(name, key))
            continue;
        snprintf(found, size, "%s", value);
    }
    fclose(file);
}

static long long number(int gpu, const char *function, const char *key, long long usual)
{
    char found[64] = "";
    text(gpu, function, key, found, sizeof found);
    return found[0] ? strtoll(found, NULL, 0) : usual;
}

/* Hang or wait as the scenario demands. Return its return code. */
static nvmlReturn_t begin(int gpu, const char *function)
{
    long long milliseconds = number(gpu, function, "slow", 0);
    struct timespec delay = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&delay, NULL);
    while (number(gpu, function, "hang", 0))
        pause();
    return (nvmlReturn_t)number(gpu, function, "rc", SUCCESS);
}

static int index_of(nvmlDevice_t device)
{
    return (int)((intptr_t)device - 1);
}

#define BEGIN(gpu) \
    nvmlReturn_t rc = begin(gpu, __func__); \
    if (rc) \
        return rc
#define VALUE(gpu, key, usual) number(gpu, __func__, key, usual)

nvmlReturn_t nvmlInit_v2(void)
{
    mark("init");
    return begin(ALL, __func__);
}

nvmlReturn_t nvmlShutdown(void)
{
    return begin(ALL, __func__);
}

/* Keys: version. */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    char found[64] = "13.580.95.05";
    BEGIN(ALL);
    text(ALL, __func__, "version", found, sizeof found);
    snprintf(version, length, "%s", found);
    return SUCCESS;
}

/* Keys: count. */
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    BEGIN(ALL);
    *count = (unsigned int)VALUE(ALL, "count", 8);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    BEGIN((int)index);
    *device = (nvmlDevice_t)(intptr_t)(index + 1);
    return SUCCESS;
}

/* Keys: bus, the number of the bus. */
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    memset(info, 0, sizeof *info);
    info->bus = (unsigned int)VALUE(gpu, "bus", 0x1b + 0x10 * gpu);
    snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", 0, info->bus, 0);
    return SUCCESS;
}

/* Keys: current, pending. */
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    *current = (int)VALUE(gpu, "current", 1);
    *pending = (int)VALUE(gpu, "pending", 1);
    return SUCCESS;
}

/* Keys: corrected.volatile, uncorrected.volatile, corrected.aggregate, uncorrected.aggregate. */
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int kind, int counter, unsigned long long *count)
{
    char key[32];
    int gpu = index_of(device);
    BEGIN(gpu);
    snprintf(key, sizeof key, "%s.%s", kind ? "uncorrected" : "corrected", counter ? "aggregate" : "volatile");
    *count = (unsigned long long)VALUE(gpu, key, 0);
    return SUCCESS;
}

/* Keys: exceeded. */
nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_v1_t *status)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    if (status->version != VERSION(nvmlEccSramErrorStatus_v1_t, 1))
        return VERSION_MISMATCH;
    status->bThresholdExceeded = (unsigned int)VALUE(gpu, "exceeded", 0);
    return SUCCESS;
}

/* Keys: corrected, uncorrected, pending, failure. */
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                       unsigned int *isPending, unsigned int *failureOccurred)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    *corrected = (unsigned int)VALUE(gpu, "corrected", 0);
    *uncorrected = (unsigned int)VALUE(gpu, "uncorrected", 0);
    *isPending = (unsigned int)VALUE(gpu, "pending", 0);
    *failureOccurred = (unsigned int)VALUE(gpu, "failure", 0);
    return SUCCESS;
}

/* Keys: none. */
nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *values)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    memset(values, 0, sizeof *values);
    values->max = 640;
    values->none = (unsigned int)VALUE(gpu, "none", 0);
    return SUCCESS;
}

/* Keys: link0 to link17. */
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, int *isActive)
{
    char key[32];
    int gpu = index_of(device);
    BEGIN(gpu);
    if (link >= LINKS)
        return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "link%u", link);
    *isActive = (int)VALUE(gpu, key, 1);
    return SUCCESS;
}

/* Keys: link0.0 to link17.4: the second number is the counter: 0 replay, 1 recovery, 2 CRC of flits, 3 CRC of data. */
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, int counter, unsigned long long *count)
{
    char key[32];
    int gpu = index_of(device);
    BEGIN(gpu);
    if (link >= LINKS)
        return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "link%u.%d", link, counter);
    *count = (unsigned long long)VALUE(gpu, key, 0);
    return SUCCESS;
}

/* Keys: state, status. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    info->state = (unsigned char)VALUE(gpu, "state", 3);
    info->status = (nvmlReturn_t)VALUE(gpu, "status", 0);
    return SUCCESS;
}

/* Keys: state, status. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    if (info->version != VERSION(nvmlGpuFabricInfo_v2_t, 2))
        return VERSION_MISMATCH;
    info->state = (unsigned char)VALUE(gpu, "state", 3);
    info->status = (nvmlReturn_t)VALUE(gpu, "status", 0);
    return SUCCESS;
}

/* Calls that return one number. Key: value. */
#define ONE_NUMBER(name, type, usual) \
    nvmlReturn_t name(nvmlDevice_t device, type *value) \
    { \
        int gpu = index_of(device); \
        BEGIN(gpu); \
        *value = (type)VALUE(gpu, "value", usual); \
        return SUCCESS; \
    }

ONE_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, 16)
ONE_NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned int, 0)
ONE_NUMBER(nvmlDeviceGetPersistenceMode, int, 1)
ONE_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, 1)
ONE_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, 1)

/* Keys: value, degrees Celsius. */
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    (void)sensor;
    *celsius = (unsigned int)VALUE(gpu, "value", 40);
    return SUCCESS;
}

/* Keys: 1, the temperature at which the hardware slows down. */
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int threshold, unsigned int *celsius)
{
    char key[16];
    int gpu = index_of(device);
    BEGIN(gpu);
    snprintf(key, sizeof key, "%d", threshold);
    *celsius = (unsigned int)VALUE(gpu, key, 89);
    return SUCCESS;
}

/* Keys: value, degrees Celsius. */
nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t *margin)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    if (margin->version != VERSION(nvmlMarginTemperature_v1_t, 1))
        return VERSION_MISMATCH;
    margin->marginTemperature = (int)VALUE(gpu, "value", 47);
    return SUCCESS;
}

/* Keys: the number of a field, and the number with `.rc` for its return code. A field that the scenario lacks is not supported, except
 * 91, the number of NVLinks, 194, the slowdown offset, and 230, the recovery action. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    int gpu = index_of(device);
    BEGIN(gpu);
    for (int i = 0; i < count; i++) {
        char key[32], found[64] = "";
        unsigned int field = values[i].fieldId;
        snprintf(found, sizeof found, "%s", field == 91 ? "18" : field == 194 ? "-2" : field == 230 ? "0" : "");
        snprintf(key, sizeof key, "%u", field);
        text(gpu, __func__, key, found, sizeof found);
        snprintf(key, sizeof key, "%u.rc", field);
        values[i].nvmlReturn = (nvmlReturn_t)VALUE(gpu, key, found[0] ? SUCCESS : NOT_SUPPORTED);
        values[i].valueType = field == 194 ? 5 : 1;
        if (field == 194)
            values[i].value.siVal = (int)strtoll(found, NULL, 0);
        else
            values[i].value.uiVal = (unsigned int)strtoull(found, NULL, 0);
    }
    return SUCCESS;
}
