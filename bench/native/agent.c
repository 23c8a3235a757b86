/* The agent of the benchmarks: reads its prompt, does its trick, promises COMPLETE.
 * instant FILE | churn COUNTER FILES | flood BYTES */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char TAG[] = "<promise>COMPLETE</promise>\n";

static void put(int out, const char *text, size_t left) {
    while (left > 0) {
        ssize_t n = write(out, text, left);
        if (n <= 0) exit(1);
        text += n;
        left -= (size_t)n;
    }
}

static void append(const char *path, const char *text) {
    int out = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (out < 0) exit(1);
    put(out, text, strlen(text));
    close(out);
}

static void folder(char *into, size_t size, long i) {
    snprintf(into, size, "p%02ld/d%03ld", i / 2000, (i / 20) % 100);
}

static void churn(const char *counter, long files) {
    char dir[64], path[160];
    long story = 0;
    FILE *in = fopen(counter, "r");
    if (in) {
        if (fscanf(in, "%ld", &story) != 1) exit(1);
        fclose(in);
    }
    for (long j = 0; j < 12; j++) {
        long i = (story * 12 + j) * 61 % files;
        folder(dir, sizeof dir, i);
        snprintf(path, sizeof path, "%s/f%02ld.txt", dir, i % 20);
        if (j < 10) append(path, "one more line\n");
        else if (unlink(path) != 0) exit(1);
        if (j < 5) {
            snprintf(path, sizeof path, "%s/new-%ld-%ld.txt", dir, story, j);
            append(path, path);
        }
    }
    in = fopen(counter, "w");
    if (!in) exit(1);
    fprintf(in, "%ld\n", story + 1);
    fclose(in);
}

static void flood(long long bytes) {
    static char block[100 * 2560];
    memset(block, 'a', sizeof block);
    for (size_t i = 99; i < sizeof block; i += 100) block[i] = '\n';
    while (bytes > 0) {
        size_t n = bytes < (long long)sizeof block ? (size_t)((bytes + 99) / 100 * 100) : sizeof block;
        put(1, block, n);
        bytes -= (long long)n;
    }
}

int main(int argc, char **argv) {
    char sink[65536];
    while (read(0, sink, sizeof sink) > 0) {}
    if (argc == 3 && strcmp(argv[1], "instant") == 0) append(argv[2], "x\n");
    else if (argc == 4 && strcmp(argv[1], "churn") == 0) churn(argv[2], atol(argv[3]));
    else if (argc == 3 && strcmp(argv[1], "flood") == 0) flood(atoll(argv[2]));
    else return 2;
    put(1, TAG, sizeof TAG - 1);
    return 0;
}
