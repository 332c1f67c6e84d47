/* test_cgroup.c: limits of control groups, read from folders laid out as Linux, containers and clusters have them. */
#define _POSIX_C_SOURCE 200809L
#include "base/cgroup.h"
#include "check.h"
#include "snls/context.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[128]; /* of the case that is laid out */

/* A file under the root, its folders made first. */
static void put(const char *path, const char *text)
{
    char all[512];
    snprintf(all, sizeof all, "%s%s", root, path);
    for (char *slash = strchr(all + strlen(check_folder()) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(all, 0700);
        *slash = '/';
    }
    FILE *file = fopen(all, "w");
    if (!file) exit(2);
    fputs(text, file);
    fclose(file);
}

/* A case has a folder of its own. */
static void begin(const char *groups, const char *mounts)
{
    static int cases;
    snprintf(root, sizeof root, "%s/%d", check_folder(), cases++);
    put("/proc/self/cgroup", groups);
    put("/proc/self/mountinfo", mounts);
}

static void expect(const char *what, int32_t processors, int64_t memory)
{
    const int32_t p = snls_cgroup_processors(root);
    const int64_t m = snls_cgroup_memory(root);
    CHECK(p == processors, "%s: %d processors, not %d", what, (int)p, (int)processors);
    CHECK(m == memory, "%s: %lld bytes, not %lld", what, (long long)m, (long long)memory);
}

#define V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"

#define V2_BESIDE "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static void version_2(void)
{
    begin("0::/user.slice/run.scope\n", V2);
    expect("version 2, nothing said", 0, 0);
    put("/sys/fs/cgroup/user.slice/run.scope/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/user.slice/run.scope/memory.max", "max\n");
    expect("version 2, one and a half processors", 2, 0);
    put("/sys/fs/cgroup/user.slice/memory.max", "314572800\n");
    put("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
    expect("version 2, memory of the group above", 2, 314572800);
    put("/sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/user.slice/run.scope/memory.max", "104857600\n");
    expect("version 2, the least of both", 1, 104857600);
}

static void version_1(void)
{
    begin("9:name=systemd:/\n8::/odd\n4:memory:/job/7\n1:cpu,cpuacct:/job\n0::/\n", V1 V2_BESIDE);
    put("/sys/fs/cgroup/unified/odd/memory.max", "1000\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/job/7/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    expect("version 1, no limits", 0, 0);
    put("/sys/fs/cgroup/memory/job/7/memory.limit_in_bytes", "4096000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    expect("version 1", 3, 4096000);
}

/* What a container sees: its own group as the root, or the whole name with that group mounted. */
static void containers(void)
{
    begin("0::/\n", V2);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/memory.max", "1000000\n");
    expect("container, own namespace", 1, 1000000);
    begin("0::/../../other\n", V2);
    put("/sys/fs/cgroup/memory.max", "2000000\n");
    put("/sys/other/memory.max", "1000\n");
    put("/sys/fs/other/memory.max", "1000\n");
    expect("container, a group outside of it", 0, 2000000);
    begin("4:memory:/docker/ab\n", "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
    expect("container, its group mounted", 0, 3000000);
    begin("4:memory:/docker/ab/cd\n", "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/cd/memory.limit_in_bytes", "4000000\n");
    expect("container, a group below it", 0, 4000000);
    begin("4:memory:/docker/abc\n", "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
    expect("container, a name that only begins alike", 0, 5000000);
}

static void odd(void)
{
    enum { LENGTH = 20000 };
    static char lines[LENGTH + 256];
    memset(lines, 'x', LENGTH);
    snprintf(lines + LENGTH, 256, "%s", " - cgroup2 cgroup2 rw\n" V2);
    memcpy(lines, "35 31 0:32 / /", 14);
    begin("nonsense\n0::/a\n", lines);
    put("/sys/fs/cgroup/a/memory.max", "600\n");
    expect("a line that is too long", 0, 600);
    begin("", "");
    expect("empty files", 0, 0);
    begin("0::/a", V2);
    put("/sys/fs/cgroup/a/memory.max", "");
    put("/sys/fs/cgroup/a/cpu.max", "0 0\n");
    expect("nothing in them", 0, 0);
}

int main(void)
{
    version_2();
    version_1();
    containers();
    odd();
    const int64_t limit = snls_memory_limit();
    CHECK(limit > 1 << 20, "this machine has %lld bytes", (long long)limit);
    check_folder_remove();
    return check_end();
}
