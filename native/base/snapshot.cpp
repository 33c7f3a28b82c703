// Writes and maps saved indexes. snapshot.hpp has the layout of the file.
//
// A file is written next to its destination, synced and renamed, so that a reader never sees half of one.
// It is mapped privately: processes share its pages, and writing to one copies only that page.
#include "base/snapshot.hpp"

#include "base/failure.hpp"
#include "base/interrupt.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace treecast {

namespace {

constexpr char magic[8] = {'T', 'R', 'E', 'E', 'C', 'A', 'S', 'T'};
constexpr uint32_t order_mark = 0x01020304;
constexpr uint64_t sections_max = 1 << 16, alignment = 64, page_bytes = 4096;
constexpr uint64_t large_bytes = 1 << 18;          // of a section that gets room to grow
constexpr size_t piece_bytes = 16u << 20;          // read or written at once
constexpr uint64_t nanoseconds_per_piece = 10'000'000;

struct Header {
    char magic[8];
    uint32_t version, order;
    uint64_t file_bytes, sections;
    uint64_t sections_sum, header_sum;     // of everything after the table; of header and table with this field 0
};

// Sections start on cache lines, so that arrays can be used in place.
uint64_t aligned(uint64_t offset, uint64_t to = alignment) { return (offset + to - 1) & ~(to - 1); }

// Where a section goes that follows something which ends at `offset`.
uint64_t section_begin(uint64_t offset, uint64_t bytes) { return aligned(offset, bytes >= large_bytes ? page_bytes : alignment); }

[[noreturn]] void refuse(const char* code, std::string message, std::string hint) {
    Failure failure(Family::snapshot, code, std::move(message));
    failure.hint = std::move(hint);
    throw failure;
}

[[noreturn]] void system_failure(const std::string& path) {
    throw std::system_error(errno, std::generic_category(), path);
}

class File {
public:
    File(const std::string& path, int flags) : number_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
        if (number_ < 0) system_failure(path);
    }
    ~File() {
        if (number_ >= 0) close(number_);
    }
    File(const File&) = delete;
    int number() const { return number_; }
    void write(const char* data, size_t bytes, const std::string& path) {
        while (bytes) {
            Interrupt::check(nanoseconds_per_piece);
            ssize_t written = ::write(number_, data, std::min<size_t>(bytes, piece_bytes));
            if (written < 0) {
                if (errno == EINTR) continue;
                system_failure(path);
            }
            data += written;
            bytes -= written;
        }
    }

private:
    int number_;
};

// Removes the unfinished file if something goes wrong.
class Unfinished {
public:
    explicit Unfinished(std::string path) : path_(std::move(path)) {}
    ~Unfinished() {
        if (!path_.empty()) unlink(path_.c_str());
    }
    void finished() { path_.clear(); }

private:
    std::string path_;
};

// Maps bytes of a file privately, with vacant memory behind them up to `room`. Null, and errno says why, where the system refuses.
std::shared_ptr<char[]> map_file(int file, uint64_t offset, uint64_t bytes, uint64_t room) {
    constexpr int access = PROT_READ | PROT_WRITE;
    void* memory = MAP_FAILED;
    if (room > bytes) {
        // What is vacant is reserved first, and the file mapped over its beginning.
        memory = mmap(nullptr, room, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED && mmap(memory, bytes, access, MAP_PRIVATE | MAP_FIXED, file, static_cast<off_t>(offset)) == MAP_FAILED) {
            munmap(memory, room);
            memory = MAP_FAILED;
        }
    } else {
        memory = mmap(nullptr, bytes, access, MAP_PRIVATE, file, static_cast<off_t>(offset));
    }
    if (memory == MAP_FAILED) return nullptr;
    return {static_cast<char*>(memory), [room](char* data) { munmap(data, room); }};
}

// Reads pages before they are asked for. MAP_POPULATE would write to them, and so copy them: they are to stay shared.
void populate(char* data, uint64_t bytes) {
#ifdef MADV_POPULATE_READ
    const uint64_t before = reinterpret_cast<uintptr_t>(data) % page_bytes;
    data -= before, bytes += before;
    for (uint64_t at = 0; at < bytes; at += piece_bytes) {
        Interrupt::check(nanoseconds_per_piece);
        madvise(data + at, std::min<uint64_t>(piece_bytes, bytes - at), MADV_POPULATE_READ);
    }
#else
    static_cast<void>(data), static_cast<void>(bytes);
#endif
}

}  // namespace

// Eight lanes of xor and multiply, each a bijection of its state, so that any change of one word changes the sum.
// It protects against accidents, not against attackers. Eight lanes let the processor work on several words at once.
uint64_t checksum(const void* data, size_t bytes, uint64_t seed) {
    constexpr uint64_t prime = 0x9E3779B97F4A7C15ull;
    uint64_t lanes[8];
    for (int i = 0; i < 8; ++i) lanes[i] = seed + prime * (i + 1);
    const char* at = static_cast<const char*>(data);
    size_t rest = bytes;
    while (rest >= 64) {
        size_t piece = std::min<size_t>(rest - rest % 64, 1u << 20);
        for (const char* end = at + piece; at < end; at += 64) {
            uint64_t words[8];
            std::memcpy(words, at, 64);
            for (int i = 0; i < 8; ++i) lanes[i] = std::rotl((lanes[i] ^ words[i]) * prime, 29);
        }
        rest -= piece;
        Interrupt::check(piece / 4);
    }
    uint64_t words[8] = {};
    if (rest) std::memcpy(words, at, rest);       // an empty section has no address
    uint64_t sum = bytes * prime;
    for (int i = 0; i < 8; ++i) {
        lanes[i] = std::rotl((lanes[i] ^ words[i]) * prime, 29);
        sum = std::rotl((sum ^ lanes[i]) * prime, 31);
    }
    return sum;
}

// Checksums chain from section to section, so that sections cannot change places unnoticed.
void SnapshotWriter::write(const std::string& path) {
    std::vector<std::string_view> sections{values_};
    sections.insert(sections.end(), sections_.begin(), sections_.end());
    std::vector<uint64_t> table;
    uint64_t data_begin = aligned(sizeof(Header) + sections.size() * 16), offset = data_begin;
    for (std::string_view section : sections) {
        offset = section_begin(offset, section.size());
        table.push_back(offset);
        table.push_back(section.size());
        offset = aligned(offset + section.size());
    }
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.version = snapshot_version;
    header.order = order_mark;
    header.file_bytes = offset;
    header.sections = sections.size();
    header.sections_sum = data_begin;
    for (std::string_view section : sections) header.sections_sum = checksum(section.data(), section.size(), header.sections_sum);
    header.header_sum = checksum(table.data(), table.size() * 8, checksum(&header, sizeof header));

    // Others may save to the same place, in this process too. So each save has a name of its own.
    static std::atomic<uint64_t> saves{0};
    std::string beside = path + "." + std::to_string(getpid()) + "." + std::to_string(++saves) + ".unfinished";
    {
        File file(beside, O_WRONLY | O_CREAT | O_TRUNC);
        Unfinished unfinished(beside);
        uint64_t written = 0;
        const char padding[page_bytes] = {};
        auto put = [&](const void* data, size_t bytes) {
            file.write(static_cast<const char*>(data), bytes, beside);
            written += bytes;
        };
        put(&header, sizeof header);
        put(table.data(), table.size() * 8);
        for (std::string_view section : sections) {
            put(padding, section_begin(written, section.size()) - written);
            put(section.data(), section.size());
        }
        put(padding, aligned(written) - written);
        if (fsync(file.number()) != 0) system_failure(beside);
        if (rename(beside.c_str(), path.c_str()) != 0) system_failure(path);
        unfinished.finished();
    }
    // The rename is durable only after the directory is synced.
    size_t slash = path.rfind('/');
    File directory(slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash), O_RDONLY | O_DIRECTORY);
    fsync(directory.number());      // some file systems cannot; the file itself is safe
}

// For sizes and numbers that contradict each other: whatever the cause, the file cannot be used.
void SnapshotReader::damaged() {
    refuse("TC503", "this saved index is damaged: what it holds differs from its checksum", "save it again, or restore it from a copy");
}

SnapshotReader::SnapshotReader(const std::string& path, bool verify) {
    File file(path, O_RDONLY | O_NONBLOCK);     // a pipe is refused, not waited for
    struct stat facts;
    if (fstat(file.number(), &facts) != 0) system_failure(path);
    if (S_ISDIR(facts.st_mode)) {
        errno = EISDIR;
        system_failure(path);
    }
    uint64_t bytes = facts.st_size;
    Header header{};
    const char* foreign = "this is no saved index of treecast";
    const char* cut = "this saved index is cut off";
    if (bytes < sizeof header || !S_ISREG(facts.st_mode)) refuse("TC501", foreign, "give a file that Index.save() wrote");
    std::shared_ptr<char[]> memory = map_file(file.number(), 0, bytes, bytes);
    if (!memory) system_failure(path);
    std::memcpy(&header, memory.get(), sizeof header);
    if (std::memcmp(header.magic, magic, sizeof magic) != 0) refuse("TC501", foreign, "give a file that Index.save() wrote");
    if (header.order != order_mark) refuse("TC501", "this index was saved on a machine of another byte order", "save it on a little-endian machine");
    if (header.sections == 0 || header.sections > sections_max) damaged();
    uint64_t table_end = sizeof header + header.sections * sizeof(Section);
    if (header.file_bytes != bytes || table_end > bytes)
        refuse("TC502", std::string(cut) + ", or longer than it says: " + std::to_string(bytes) + " bytes instead of " + std::to_string(header.file_bytes),
               "copy it again, whole");
    sections_.resize(header.sections);
    std::memcpy(sections_.data(), memory.get() + sizeof header, header.sections * sizeof(Section));
    uint64_t expected = header.header_sum;
    header.header_sum = 0;
    if (checksum(sections_.data(), sections_.size() * sizeof(Section), checksum(&header, sizeof header)) != expected) damaged();
    // Every section must lie inside the file, or a damaged table would lead to reads outside the mapping.
    for (const Section& section : sections_)
        if (section.offset % alignment || section.offset < table_end || section.offset > bytes || section.bytes > bytes - section.offset) damaged();
    map_sections(file.number(), memory, verify);
    if (verify) {
        check_gaps(memory.get(), table_end, bytes);
        uint64_t sum = aligned(table_end);
        for (const Part& part : parts_) sum = checksum(part.data, part.bytes, sum);
        if (sum != header.sections_sum) damaged();
    }
    version_ = header.version;
}

// The checksums cover no byte between sections, and the writer leaves zeros there: so any other byte is damage.
void SnapshotReader::check_gaps(const char* file, uint64_t table_end, uint64_t bytes) const {
    uint64_t at = table_end;
    auto check_zeros = [&](uint64_t end) {
        if (at > end || std::any_of(file + at, file + end, [](char byte) { return byte != 0; })) damaged();
    };
    for (const Section& section : sections_) {
        check_zeros(section.offset);
        at = section.offset + section.bytes;
    }
    check_zeros(bytes);
}

// Small sections are left where they are in `memory`, the whole file. So are large ones where there is no room for them.
void SnapshotReader::map_sections(int file, const std::shared_ptr<char[]>& memory, bool verify) {
    for (const Section& section : sections_) {
        Part part{memory, memory.get() + section.offset, section.bytes, section.bytes};
        if (section.bytes >= large_bytes && section.offset % page_bytes == 0) {
            uint64_t room = aligned(section.bytes + section.bytes / 4, page_bytes);
            if (auto own = map_file(file, section.offset, section.bytes, room)) {
                char* data = own.get();
                part = {std::move(own), data, section.bytes, room};
            }
        }
        if (verify) populate(part.data, section.bytes);
        parts_.push_back(std::move(part));
    }
}

// The order of reading is the order of writing; there are no names in the file.
SnapshotReader::Part SnapshotReader::next(size_t element) {
    if (next_section_ >= sections_.size() || sections_[next_section_].bytes % element) damaged();
    return parts_[next_section_++];
}

// Plain values are packed into the first section, in the order of writing.
void SnapshotReader::take_value(void* value, size_t bytes) {
    if (next_value_ + bytes > sections_[0].bytes) damaged();
    std::memcpy(value, parts_[0].data + next_value_, bytes);
    next_value_ += bytes;
}

}  // namespace treecast
