/* Reads a 2 GiB buffer with several threads, as independent of llmops as can be: own allocation, own loop, own clock.
 * Usage: read_memory THREADS PASSES; prints the bytes per second of the median pass. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOTAL_BYTES (2ULL << 30)
#define MOST_THREADS 1024
#define MOST_PASSES 64

typedef uint64_t lanes __attribute__((vector_size(64)));

static size_t thread_count, pass_count, share_bytes;
static pthread_barrier_t gate;
static volatile uint64_t checksum[MOST_THREADS];
static double begun[MOST_PASSES][MOST_THREADS], ended[MOST_PASSES][MOST_THREADS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static uint64_t add_up(const lanes *data, size_t count) {
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i + 4 <= count; i += 4) {
        a += data[i];
        b += data[i + 1];
        c += data[i + 2];
        d += data[i + 3];
    }
    a += b + c + d;
    return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
}

static void *work(void *argument) {
    size_t number = (size_t)(uintptr_t)argument;
    lanes *data = aligned_alloc(sizeof(lanes), share_bytes);
    if (!data) abort();
    memset(data, (int)number + 1, share_bytes);
    for (size_t pass = 0; pass < pass_count; pass++) {
        pthread_barrier_wait(&gate);
        begun[pass][number] = now();
        checksum[number] += add_up(data, share_bytes / sizeof(lanes));
        ended[pass][number] = now();
    }
    free(data);
    return NULL;
}

static int ascending(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    thread_count = strtoul(argv[1], NULL, 10);
    pass_count = strtoul(argv[2], NULL, 10);
    if (!thread_count || thread_count > MOST_THREADS || !pass_count || pass_count > MOST_PASSES) return 2;
    share_bytes = TOTAL_BYTES / thread_count / 4096 * 4096;
    pthread_barrier_init(&gate, NULL, thread_count);
    pthread_t threads[MOST_THREADS];
    for (size_t i = 0; i < thread_count; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i)) return 1;
    for (size_t i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    double seconds[MOST_PASSES];
    for (size_t pass = 0; pass < pass_count; pass++) {
        double first = begun[pass][0], last = ended[pass][0];
        for (size_t i = 1; i < thread_count; i++) {
            if (begun[pass][i] < first) first = begun[pass][i];
            if (ended[pass][i] > last) last = ended[pass][i];
        }
        seconds[pass] = last - first;
    }
    qsort(seconds, pass_count, sizeof(double), ascending);
    printf("%.0f\n", share_bytes * thread_count / seconds[pass_count / 2]);
    return 0;
}
