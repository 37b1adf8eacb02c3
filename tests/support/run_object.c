/* Runs an object through its C interface, from C: reads a script of calls, writes their logits.
 *
 *   cc -static -pthread run_object.c model.o -o run && ./run < script > logits
 *
 * The script is a sequence of little-endian 64-bit integers and of arrays, each padded to 8 bytes:
 *   threads, context, sequences, arena bytes, weights bytes, weights, states, bytes of each state,
 *   calls, then for each call: graph (0 prefill, 1 decode, 2 embed), tokens, rows, width of the
 *   logits, and the int32 arrays tokens, positions, sequences, rows, lengths.
 */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

struct call {
    int64_t abi_version;
    void *weights, *arena, **states;
    int32_t *tokens, *positions, *sequences, *rows;
    float *logits;
    int64_t n_tokens, n_rows, context, n_sequences;
    uint64_t *profile;
    void *pool;
    int32_t *lengths;
};

extern int64_t ggufc_abi_version(void);
extern int64_t ggufc_pool_bytes(int64_t threads);
extern void ggufc_pool_init(void *pool, int64_t threads);
extern void ggufc_worker(void *pool, int64_t index);
extern void ggufc_pool_close(void *pool);
/* An object has those graphs that its model has: the others are null. */
extern int32_t ggufc_prefill(struct call *call) __attribute__((weak));
extern int32_t ggufc_decode(struct call *call) __attribute__((weak));
extern int32_t ggufc_embed(struct call *call) __attribute__((weak));

struct worker {
    void *pool;
    int64_t index;
};

static void fail(const char *what) {
    fprintf(stderr, "run_object: %s\n", what);
    exit(1);
}

/* Linux saves matrix tiles only for processes that ask for it before they start threads. Where there
 * are none it refuses, and no object that needs them is run. */
static void request_tiles(void) {
#if defined(__x86_64__) && defined(__linux__)
    enum { request_permission = 0x1023, tile_data = 18 };
    syscall(SYS_arch_prctl, request_permission, tile_data);
#endif
}

static void *zeros(int64_t nbytes) {
    int64_t padded = (nbytes + 127) / 64 * 64;
    void *memory = aligned_alloc(64, padded);
    if (!memory) fail("out of memory");
    return memset(memory, 0, padded);
}

static void *read_array(int64_t nbytes) {
    int64_t padded = (nbytes + 7) / 8 * 8;
    void *memory = zeros(padded);
    if (fread(memory, 1, padded, stdin) != (size_t)padded) fail("the script ends early");
    return memory;
}

static int64_t read_int(void) {
    int64_t *value = read_array(8);
    int64_t result = *value;
    free(value);
    return result;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    ggufc_worker(worker->pool, worker->index);
    return NULL;
}

static void run(struct call *call) {
    int64_t graph = read_int();
    call->n_tokens = read_int();
    call->n_rows = read_int();
    int64_t count = call->n_rows * read_int();
    call->tokens = read_array(4 * call->n_tokens);
    call->positions = read_array(4 * call->n_tokens);
    call->sequences = read_array(4 * call->n_tokens);
    call->rows = read_array(4 * call->n_rows);
    call->lengths = read_array(4 * call->n_tokens);
    call->logits = zeros(4 * count);
    int32_t (*graphs[])(struct call *) = {ggufc_prefill, ggufc_decode, ggufc_embed};
    if (graphs[graph] == NULL) fail("no such graph");
    if (graphs[graph](call) != 0) fail("a call was refused");
    fwrite(call->logits, 4, count, stdout);
}

int main(void) {
    request_tiles();
    struct call call = {.abi_version = ggufc_abi_version()};
    int64_t threads = read_int();
    call.context = read_int();
    call.n_sequences = read_int();
    call.arena = zeros(read_int());
    call.weights = read_array(read_int());
    int64_t states = read_int();
    call.states = zeros(8 * states);
    for (int64_t i = 0; i < states; i++) call.states[i] = zeros(read_int());

    call.pool = zeros(ggufc_pool_bytes(threads));
    ggufc_pool_init(call.pool, threads);
    pthread_t *ids = zeros(threads * sizeof *ids);
    struct worker *workers = zeros(threads * sizeof *workers);
    for (int64_t i = 1; i < threads; i++) {
        workers[i] = (struct worker){call.pool, i};
        if (pthread_create(&ids[i], NULL, work, &workers[i]) != 0) fail("no more threads");
    }
    for (int64_t calls = read_int(); calls > 0; calls--) run(&call);
    ggufc_pool_close(call.pool);
    for (int64_t i = 1; i < threads; i++) pthread_join(ids[i], NULL);
    return 0;
}
