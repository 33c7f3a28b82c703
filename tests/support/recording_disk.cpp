// Records what a process does to the files of one directory, so that a test can tell what a loss of power would leave.
//
// Preloaded into a process. Every change goes to the real file and, in order, to a recording: writes with their data,
// cuts, syncs, failed syncs, and changes of names. A sync is recorded, not done. tests/support/crashing_disk.py replays the recording
// up to any point, and keeps what was synced by then and any part of the rest.
//
//   DISK_ROOT        the directory, an absolute path
//   DISK_RECORDING   the file for the recording
//   DISK_KILL        the process kills itself before this operation (0: never)
//
// The process itself may call disk_note(number), which records that something was acknowledged, and
// disk_fail(operation, error, count), which lets operations fail after some more that succeed.
//
// Memory-mapped files are not seen. SQLite maps only its "-shm" file, which it makes anew after a crash: passed over.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

namespace {

constexpr int files_max = 4096;
constexpr int recording_file = 1000;  // out of the way of everybody else's

char root[4096];  // plain, as it is set before C++ objects of this file are made
bool tracked[files_max];
bool appending[files_max];
int recording = -1;
long operations = 0;
long kill_before = 0;
char failing = 0;
int failing_error = 0;
long failing_after = 0;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct Guard {
    Guard() { pthread_mutex_lock(&mutex); }
    ~Guard() { pthread_mutex_unlock(&mutex); }
};

struct __attribute__((packed)) Entry {
    char operation;
    int32_t file;
    int64_t number;
    uint32_t bytes;
};

template <typename Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

__attribute__((constructor)) void begin() {
    const char* directory = getenv("DISK_ROOT");
    const char* file = getenv("DISK_RECORDING");
    const char* kill = getenv("DISK_KILL");
    if (directory == nullptr || file == nullptr) return;
    int opened = static_cast<int>(syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    recording = static_cast<int>(syscall(SYS_dup3, opened, recording_file, O_CLOEXEC));
    syscall(SYS_close, opened);
    strncpy(root, directory, sizeof root - 1);
    kill_before = kill ? atol(kill) : 0;
}

void record(char operation, int file, int64_t number, const std::string& data) {
    Entry entry{operation, file, number, static_cast<uint32_t>(data.size())};
    std::string bytes(reinterpret_cast<const char*>(&entry), sizeof entry);
    bytes += data;
    syscall(SYS_write, recording, bytes.data(), bytes.size());
}

// Counts an operation. The process may die here, or the operation may have to fail.
bool fails(char operation) {
    if (++operations == kill_before) kill(getpid(), SIGKILL);
    if (operation != failing || failing_after-- > 0) return false;
    errno = failing_error;
    return true;
}

bool is_ours(const char* path) {
    if (recording < 0 || path == nullptr) return false;
    std::string name = path;
    if (name.size() >= 4 && name.substr(name.size() - 4) == "-shm") return false;
    return name == root || name.rfind(std::string(root) + "/", 0) == 0;
}

bool is_ours(int file) { return recording >= 0 && file >= 0 && file < files_max && tracked[file]; }

int open_file(const char* path, int flags, mode_t mode) {
    Guard guard;
    bool ours = is_ours(path);
    struct stat about;
    bool existed = ours && ::stat(path, &about) == 0;
    if (ours && !existed && (flags & O_CREAT) && fails('O')) return -1;
    int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode));
    if (file < 0 || file >= files_max) return file;
    tracked[file] = ours;
    appending[file] = flags & O_APPEND;
    if (ours) record(existed ? 'o' : 'O', file, existed && (flags & O_TRUNC), path);
    return file;
}

ssize_t write_at(int file, const iovec* parts, int count, off64_t offset, bool moves) {
    Guard guard;
    if (fails('W')) return -1;
    if (moves) offset = appending[file] ? lseek64(file, 0, SEEK_END) : lseek64(file, 0, SEEK_CUR);
    std::string data;
    for (int part = 0; part < count; ++part) data.append(static_cast<const char*>(parts[part].iov_base), parts[part].iov_len);
    ssize_t written = syscall(SYS_pwrite64, file, data.data(), data.size(), offset);
    if (written < 0) return written;
    if (moves) lseek64(file, offset + written, SEEK_SET);
    record('W', file, offset, data.substr(0, static_cast<size_t>(written)));
    return written;
}

ssize_t write_one(int file, const void* data, size_t bytes, off64_t offset, bool moves) {
    iovec part{const_cast<void*>(data), bytes};
    return write_at(file, &part, 1, offset, moves);
}

int sync_file(int file) {
    Guard guard;
    bool failed = fails('S');
    record(failed ? 'F' : 'S', file, 0, "");
    return failed ? -1 : 0;
}

int cut_file(int file, off64_t size) {
    Guard guard;
    if (fails('T')) return -1;
    int result = static_cast<int>(syscall(SYS_ftruncate, file, size));
    if (result == 0) record('T', file, size, "");
    return result;
}

// A change of names: `number` is the length of the first of two paths.
template <typename Call>
int change_names(char operation, const char* path, const char* other, Call call) {
    Guard guard;
    bool ours = is_ours(path) || is_ours(other);
    if (ours && fails(operation)) return -1;
    int result = call();
    if (ours && result == 0) record(operation, -1, static_cast<int64_t>(strlen(path)), std::string(path) + (other ? other : ""));
    return result;
}

mode_t mode_of(int flags, va_list arguments) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0; }

}  // namespace

extern "C" {

void disk_note(long number) {
    Guard guard;
    record('N', -1, number, "");
}

void disk_fail(char operation, int error, long count) {
    Guard guard;
    failing = operation;
    failing_error = error;
    failing_after = count;
}

#define OPEN(name)                                     \
    int name(const char* path, int flags, ...) {       \
        va_list arguments;                             \
        va_start(arguments, flags);                    \
        mode_t mode = mode_of(flags, arguments);       \
        va_end(arguments);                             \
        return open_file(path, flags, mode);           \
    }
OPEN(open)
OPEN(open64)
int __open_2(const char* path, int flags) { return open_file(path, flags, 0); }
int __open64_2(const char* path, int flags) { return open_file(path, flags, 0); }

#define OPENAT(name)                                                           \
    int name(int directory, const char* path, int flags, ...) {                \
        va_list arguments;                                                     \
        va_start(arguments, flags);                                            \
        mode_t mode = mode_of(flags, arguments);                               \
        va_end(arguments);                                                     \
        if (directory == AT_FDCWD || path[0] == '/') return open_file(path, flags, mode); \
        return static_cast<int>(syscall(SYS_openat, directory, path, flags, mode)); \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int file) {
    Guard guard;
    if (is_ours(file)) {
        record('C', file, 0, "");
        tracked[file] = false;
    }
    return static_cast<int>(syscall(SYS_close, file));
}

ssize_t write(int file, const void* data, size_t bytes) {
    return is_ours(file) ? write_one(file, data, bytes, 0, true) : syscall(SYS_write, file, data, bytes);
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
    return is_ours(file) ? write_one(file, data, bytes, offset, false) : syscall(SYS_pwrite64, file, data, bytes, offset);
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t offset) { return pwrite(file, data, bytes, offset); }
ssize_t writev(int file, const iovec* parts, int count) {
    return is_ours(file) ? write_at(file, parts, count, 0, true) : syscall(SYS_writev, file, parts, count);
}
ssize_t pwritev(int file, const iovec* parts, int count, off_t offset) {
    return is_ours(file) ? write_at(file, parts, count, offset, false) : next<decltype(pwritev)>("pwritev")(file, parts, count, offset);
}
ssize_t pwritev64(int file, const iovec* parts, int count, off64_t offset) { return pwritev(file, parts, count, offset); }
ssize_t pwritev2(int file, const iovec* parts, int count, off_t offset, int flags) {
    if (is_ours(file)) return write_at(file, parts, count, offset, offset == -1);
    return next<decltype(pwritev2)>("pwritev2")(file, parts, count, offset, flags);
}
ssize_t pwritev64v2(int file, const iovec* parts, int count, off64_t offset, int flags) {
    return pwritev2(file, parts, count, offset, flags);
}

int ftruncate(int file, off_t size) {
    return is_ours(file) ? cut_file(file, size) : static_cast<int>(syscall(SYS_ftruncate, file, size));
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }
int fsync(int file) { return is_ours(file) ? sync_file(file) : static_cast<int>(syscall(SYS_fsync, file)); }
int fdatasync(int file) { return is_ours(file) ? sync_file(file) : static_cast<int>(syscall(SYS_fdatasync, file)); }

int rename(const char* path, const char* other) {
    return change_names('R', path, other, [&] { return static_cast<int>(syscall(SYS_rename, path, other)); });
}
int renameat(int directory, const char* path, int other_directory, const char* other) {
    return change_names('R', path, other, [&] {
        return static_cast<int>(syscall(SYS_renameat, directory, path, other_directory, other));
    });
}
int link(const char* path, const char* other) {
    return change_names('L', path, other, [&] { return static_cast<int>(syscall(SYS_link, path, other)); });
}
int linkat(int directory, const char* path, int other_directory, const char* other, int flags) {
    return change_names('L', path, other, [&] {
        return static_cast<int>(syscall(SYS_linkat, directory, path, other_directory, other, flags));
    });
}
int unlink(const char* path) {
    return change_names('U', path, nullptr, [&] { return static_cast<int>(syscall(SYS_unlink, path)); });
}
int unlinkat(int directory, const char* path, int flags) {
    return change_names('U', path, nullptr, [&] { return static_cast<int>(syscall(SYS_unlinkat, directory, path, flags)); });
}
int mkdir(const char* path, mode_t mode) {
    return change_names('M', path, nullptr, [&] { return static_cast<int>(syscall(SYS_mkdir, path, mode)); });
}
int mkdirat(int directory, const char* path, mode_t mode) {
    return change_names('M', path, nullptr, [&] { return static_cast<int>(syscall(SYS_mkdirat, directory, path, mode)); });
}

}  // extern "C"
