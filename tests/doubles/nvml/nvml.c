/* A stand-in for libnvidia-ml.so.1 that answers from a scenario file (environment variable NVML_SCENARIO).
 * It has the functions that pynvml calls for llmops, with NVML's own signatures and return codes. Each shutdown adds a
 * line to the file named by NVML_SHUTDOWN_LOG. One statement per line:
 *   init CODE | driver VERSION | memory_v2 CODE
 *   card NAME, then about this card:
 *     uuid TEXT | memory TOTAL FREE | memory_error CODE | capability MAJOR MINOR | bus BITS | clock MEGAHERTZ
 *     compute PID BYTES | graphics PID BYTES (BYTES -1: not available) | handle CODE | instance TOTAL FREE UUID NAME
 *     reasons BITS | temperature CELSIUS | power ENFORCED DEFAULT (milliwatts) | virtual MODE | licence LICENSED
 *     bus_type TYPE | pcie GENERATION WIDTH | nvlink LINKS MEGABYTES_PER_SECOND PEER (a card, or -1: a switch)
 *   pair FIRST SECOND LEVEL NVLINK READ (how two cards reach each other: NVML's level and its two states)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { MOST_CARDS = 16, MOST_PROCESSES = 16, MOST_INSTANCES = 8, TEXT = 96, MEMORY_CLOCK = 2 };

typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
} process;

typedef struct {
    process rows[MOST_PROCESSES];
    unsigned int count;
} process_list;

typedef struct {
    unsigned long long total, reserved, free, used;
} memory;

typedef struct card {
    char name[TEXT], uuid[TEXT];
    memory amounts;
    int memory_error, handle_error, major, minor, licence;
    unsigned int bus, clock, instance_count, temperature, power_enforced, power_default, bus_type;
    unsigned long long reasons, virtual_mode;
    unsigned int pcie_generation, pcie_width, links, link_rate;
    int link_peer;
    process_list compute, graphics;
    struct card *instances;
} card;

typedef struct {
    unsigned int first, second, level, nvlink, read;
} card_pair;

typedef struct {
    char legacy_id[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char id[32];
} pci_info;

typedef struct {
    unsigned int field, scope;
    long long timestamp, latency;
    int type, code;
    union { unsigned int number; double real; unsigned long long wide; } value;
} field_value;

typedef struct {
    unsigned int version;
    memory amounts;
} memory_v2;

typedef struct {
    unsigned int code, state;
    char info[128], product[128];
    unsigned int enabled;
    struct { unsigned int year; unsigned short month, day, hour, minute, second; unsigned char status; } expiry;
} licence_feature;

typedef struct {
    int supported;
    unsigned int count;
    licence_feature features[3];
} licence_features;

static card cards[MOST_CARDS];
static unsigned int card_count;
static card_pair pairs[MOST_CARDS];
static unsigned int pair_count;
static int init_code, memory_v2_code, started;
static char driver[TEXT];

static void copy(char *to, size_t size, const char *from) {
    snprintf(to, size, "%s", from);
}

static void set_memory(memory *amounts, unsigned long long total, unsigned long long free) {
    amounts->total = total;
    amounts->free = free;
    amounts->reserved = 0;
    amounts->used = total - free;
}

static void add_process(process_list *list, const char *rest) {
    long long used = 0;
    unsigned int pid = 0;
    if (list->count == MOST_PROCESSES || sscanf(rest, "%u %lld", &pid, &used) != 2) abort();
    list->rows[list->count++] = (process){pid, (unsigned long long)used, 0xFFFFFFFF, 0xFFFFFFFF};
}

static void add_instance(card *owner, const char *rest) {
    unsigned long long total, free;
    char uuid[TEXT], name[TEXT];
    if (!owner->instances) owner->instances = calloc(MOST_INSTANCES, sizeof(card));
    if (owner->instance_count == MOST_INSTANCES) abort();
    if (sscanf(rest, "%llu %llu %95s %95[^\n]", &total, &free, uuid, name) != 4) abort();
    card *instance = &owner->instances[owner->instance_count++];
    set_memory(&instance->amounts, total, free);
    copy(instance->uuid, TEXT, uuid);
    copy(instance->name, TEXT, name);
}

static int read_state_line(card *now, const char *word, const char *rest) {
    if (!strcmp(word, "reasons")) now->reasons = strtoull(rest, NULL, 0);
    else if (!strcmp(word, "temperature")) now->temperature = (unsigned int)atoi(rest);
    else if (!strcmp(word, "power")) return sscanf(rest, "%u %u", &now->power_enforced, &now->power_default) == 2;
    else if (!strcmp(word, "virtual")) now->virtual_mode = (unsigned long long)atoi(rest);
    else if (!strcmp(word, "licence")) now->licence = atoi(rest);
    else if (!strcmp(word, "bus_type")) now->bus_type = (unsigned int)atoi(rest);
    else if (!strcmp(word, "pcie")) return sscanf(rest, "%u %u", &now->pcie_generation, &now->pcie_width) == 2;
    else if (!strcmp(word, "nvlink")) return sscanf(rest, "%u %u %d", &now->links, &now->link_rate, &now->link_peer) == 3;
    else return 0;
    return 1;
}

static int read_card_line(card *now, const char *word, const char *rest) {
    unsigned long long total, free;
    if (!strcmp(word, "uuid")) copy(now->uuid, TEXT, rest);
    else if (!strcmp(word, "memory") && sscanf(rest, "%llu %llu", &total, &free) == 2) set_memory(&now->amounts, total, free);
    else if (!strcmp(word, "memory_error")) now->memory_error = atoi(rest);
    else if (!strcmp(word, "handle")) now->handle_error = atoi(rest);
    else if (!strcmp(word, "capability")) return sscanf(rest, "%d %d", &now->major, &now->minor) == 2;
    else if (!strcmp(word, "bus")) now->bus = (unsigned int)atoi(rest);
    else if (!strcmp(word, "clock")) now->clock = (unsigned int)atoi(rest);
    else if (!strcmp(word, "compute")) add_process(&now->compute, rest);
    else if (!strcmp(word, "graphics")) add_process(&now->graphics, rest);
    else if (!strcmp(word, "instance")) add_instance(now, rest);
    else return read_state_line(now, word, rest);
    return 1;
}

static int read_pair_line(const char *rest) {
    card_pair *now = &pairs[pair_count];
    if (pair_count == MOST_CARDS) return 0;
    pair_count++;
    return sscanf(rest, "%u %u %u %u %u", &now->first, &now->second, &now->level, &now->nvlink, &now->read) == 5;
}

static void read_line(char *line) {
    line[strcspn(line, "\n")] = 0;
    line += strspn(line, " ");
    if (!*line || *line == '#') return;
    char *rest = line + strcspn(line, " ");
    if (*rest) *rest++ = 0;
    if (!strcmp(line, "init")) init_code = atoi(rest);
    else if (!strcmp(line, "driver")) copy(driver, TEXT, rest);
    else if (!strcmp(line, "memory_v2")) memory_v2_code = atoi(rest);
    else if (!strcmp(line, "card") && card_count < MOST_CARDS) copy(cards[card_count++].name, TEXT, rest);
    else if (!strcmp(line, "pair") && read_pair_line(rest)) return;
    else if (!card_count || !read_card_line(&cards[card_count - 1], line, rest)) {
        fprintf(stderr, "scenario: cannot read '%s %s'\n", line, rest);
        abort();
    }
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    const char *path = getenv("NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        fprintf(stderr, "scenario: NVML_SCENARIO names no file\n");
        abort();
    }
    char line[512];
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
    started = init_code == SUCCESS;
    return init_code;
}

int nvmlShutdown(void) {
    if (!started) return UNINITIALIZED;
    started = 0;
    const char *path = getenv("NVML_SHUTDOWN_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fputs("shutdown\n", file);
        fclose(file);
    }
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    static char text[TEXT];
    snprintf(text, sizeof text, "scenario error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    if (!started) return UNINITIALIZED;
    copy(version, length, driver);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    if (!started) return UNINITIALIZED;
    *count = card_count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, card **handle) {
    if (!started) return UNINITIALIZED;
    if (index >= card_count) return INVALID_ARGUMENT;
    *handle = &cards[index];
    return cards[index].handle_error;
}

int nvmlDeviceGetName(card *handle, char *name, unsigned int length) {
    copy(name, length, handle->name);
    return SUCCESS;
}

int nvmlDeviceGetUUID(card *handle, char *uuid, unsigned int length) {
    if (!*handle->uuid) return NOT_SUPPORTED;
    copy(uuid, length, handle->uuid);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(card *handle, unsigned long long *total_free_used) {
    if (handle->memory_error) return handle->memory_error;
    total_free_used[0] = handle->amounts.total;
    total_free_used[1] = handle->amounts.free;
    total_free_used[2] = handle->amounts.used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(card *handle, memory_v2 *answer) {
    if (memory_v2_code) return memory_v2_code;
    if (answer->version != (sizeof(memory_v2) | 2u << 24)) return INVALID_ARGUMENT;
    if (handle->memory_error) return handle->memory_error;
    answer->amounts = handle->amounts;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(card *handle, int *major, int *minor) {
    if (!handle->major) return NOT_SUPPORTED;
    *major = handle->major;
    *minor = handle->minor;
    return SUCCESS;
}

int nvmlDeviceGetMemoryBusWidth(card *handle, unsigned int *bits) {
    *bits = handle->bus;
    return handle->bus ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxClockInfo(card *handle, unsigned int kind, unsigned int *megahertz) {
    if (kind != MEMORY_CLOCK) return INVALID_ARGUMENT;
    *megahertz = handle->clock;
    return handle->clock ? SUCCESS : NOT_SUPPORTED;
}

static int answer_processes(const process_list *list, unsigned int *count, process *rows) {
    unsigned int room = *count;
    *count = list->count;
    if (!list->count) return SUCCESS;
    if (!rows || room < list->count) return INSUFFICIENT_SIZE;
    memcpy(rows, list->rows, list->count * sizeof(process));
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(card *handle, unsigned int *count, process *rows) {
    return answer_processes(&handle->compute, count, rows);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(card *handle, unsigned int *count, process *rows) {
    return answer_processes(&handle->graphics, count, rows);
}

int nvmlDeviceGetMigMode(card *handle, unsigned int *current, unsigned int *pending) {
    if (!handle->instances) return NOT_SUPPORTED;
    *current = *pending = 1;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(card *handle, unsigned int *count) {
    (void)handle;
    *count = MOST_INSTANCES - 1;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(card *handle, unsigned int index, card **instance) {
    if (index >= handle->instance_count) return NOT_FOUND;
    *instance = &handle->instances[index];
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(card *handle, unsigned long long *bits) {
    *bits = handle->reasons;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(card *handle, unsigned int sensor, unsigned int *celsius) {
    if (sensor) return INVALID_ARGUMENT;
    *celsius = handle->temperature;
    return handle->temperature ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetEnforcedPowerLimit(card *handle, unsigned int *milliwatts) {
    *milliwatts = handle->power_enforced;
    return handle->power_enforced ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetPowerManagementDefaultLimit(card *handle, unsigned int *milliwatts) {
    *milliwatts = handle->power_default;
    return handle->power_default ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetVirtualizationMode(card *handle, unsigned long long *mode) {
    *mode = handle->virtual_mode;
    return SUCCESS;
}

int nvmlDeviceGetBusType(card *handle, unsigned int *type) {
    *type = handle->bus_type;
    return handle->bus_type ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetGridLicensableFeatures_v4(card *handle, licence_features *answer) {
    memset(answer, 0, sizeof *answer);
    answer->supported = handle->licence >= 0;
    answer->count = answer->supported ? 1 : 0;
    answer->features[0].state = handle->licence > 0;
    answer->features[0].enabled = handle->licence > 0;
    return SUCCESS;
}

static const card_pair *pair_of(const card *first, const card *second) {
    for (unsigned int number = 0; number < pair_count; number++) {
        const card *one = &cards[pairs[number].first], *other = &cards[pairs[number].second];
        if ((one == first && other == second) || (one == second && other == first)) return &pairs[number];
    }
    return NULL;
}

int nvmlDeviceGetP2PStatus(card *first, card *second, unsigned int capability, unsigned int *state) {
    const card_pair *pair = pair_of(first, second);
    if (!pair) return NOT_SUPPORTED;
    if (capability != 0 && capability != 2) return INVALID_ARGUMENT;
    *state = capability ? pair->nvlink : pair->read;
    return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(card *first, card *second, unsigned int *level) {
    const card_pair *pair = pair_of(first, second);
    if (!pair) return NOT_SUPPORTED;
    *level = pair->level;
    return SUCCESS;
}

static int answer_pci(const card *handle, pci_info *answer) {
    memset(answer, 0, sizeof *answer);
    snprintf(answer->id, sizeof answer->id, "00000000:%02X:00.0", (unsigned int)(handle - cards) + 1);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(card *handle, pci_info *answer) {
    return answer_pci(handle, answer);
}

int nvmlDeviceGetNvLinkState(card *handle, unsigned int link, unsigned int *active) {
    if (!handle->links) return NOT_SUPPORTED;
    *active = link < handle->links;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(card *handle, unsigned int link, unsigned int *type) {
    if (link >= handle->links) return NOT_SUPPORTED;
    *type = handle->link_peer < 0 ? 2 : 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(card *handle, unsigned int link, pci_info *answer) {
    if (link >= handle->links || handle->link_peer < 0) return NOT_SUPPORTED;
    return answer_pci(&cards[handle->link_peer], answer);
}

int nvmlDeviceGetFieldValues(card *handle, int count, field_value *values) {
    for (int number = 0; number < count; number++) {
        values[number].code = handle->links ? SUCCESS : NOT_SUPPORTED;
        values[number].value.number = handle->link_rate;
    }
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(card *handle, unsigned int *generation) {
    *generation = handle->pcie_generation;
    return handle->pcie_generation ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxPcieLinkWidth(card *handle, unsigned int *width) {
    *width = handle->pcie_width;
    return handle->pcie_width ? SUCCESS : NOT_SUPPORTED;
}
