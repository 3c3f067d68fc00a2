/* Moves the wall clock of a process by the seconds that the file named by CLOCK_MOVED_BY holds, as eight octets. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int (*true_clock)(clockid_t, struct timespec *);
/* Shared with whoever writes the file: a process that has given its rights up could not read it again. */
static volatile int64_t *moved_by;

__attribute__((constructor)) static void prepare(void) {
	true_clock = dlsym(RTLD_NEXT, "clock_gettime");
	const char *path = getenv("CLOCK_MOVED_BY");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0)
		return;
	void *shared = mmap(0, sizeof *moved_by, PROT_READ, MAP_SHARED, file, 0);
	if (shared != MAP_FAILED)
		moved_by = shared;
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
	if (!true_clock)
		prepare();
	int outcome = true_clock(clock, time);
	if (outcome == 0 && clock == CLOCK_REALTIME && moved_by)
		time->tv_sec += *moved_by;
	return outcome;
}
