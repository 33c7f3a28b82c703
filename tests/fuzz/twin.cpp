// The small twin of every fuzz target, for `make test`: each seed as it is, and drawn changes of it. tools/sanitize.sh builds and
// runs it, without clang. It keeps the targets compiling and their invariants true of what the seeds show; it does not look
// for new code as libFuzzer does (`make fuzz`).
//
//     fuzz_twin tests/fuzz 200       200 changes of each seed; the same ones each time
//
// A change puts in a word of the target's dictionary, a part of another seed or any byte, or takes a part away or repeats it. An
// input that breaks an invariant is printed before the target aborts.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <csignal>
#include <unistd.h>

namespace {

using Target = int(const uint8_t*, size_t);

}  // namespace

// CMake names them: FUZZ_TARGET(fuzz_match) and so on. Each is LLVMFuzzerTestOneInput of its file.
#define FUZZ_TARGET(name) extern "C" Target name;
FUZZ_TARGETS
#undef FUZZ_TARGET

namespace {

struct NamedTarget {
    const char* name;
    Target* run;
};

#define FUZZ_TARGET(name) {#name, name},
const NamedTarget targets[] = {FUZZ_TARGETS};
#undef FUZZ_TARGET

const char* running = "";
std::string input;

// What was running, where it broke. Only what a signal handler may call.
void report(int signal) {
    auto say = [](const char* text, size_t size) { return ::write(STDERR_FILENO, text, size); };
    static_cast<void>(say("\nthe input of ", 14) + say(running, std::char_traits<char>::length(running)) + say(":\n", 2) +
                      say(input.data(), input.size()) + say("\n", 1));
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

std::string contents(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The words of a dictionary: one in quotes a line, with \\, \" and \xAB.
std::vector<std::string> words_of(const std::filesystem::path& path) {
    std::vector<std::string> words;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        size_t begin = line.find('"'), end = line.rfind('"');
        if (line.starts_with('#') || begin == line.npos || begin == end) continue;
        std::string word;
        for (size_t at = begin + 1; at < end; ++at) {
            if (line[at] != '\\') word += line[at];
            else if (line[++at] != 'x') word += line[at];
            else word += static_cast<char>(std::stoi(line.substr(at + 1, 2), nullptr, 16)), at += 2;
        }
        words.push_back(word);
    }
    return words;
}

class Changes {
public:
    Changes(std::vector<std::string> seeds, std::vector<std::string> words) : seeds_(std::move(seeds)), words_(std::move(words)) {}

    void change(std::string& text) {
        size_t at = below(text.size() + 1), length = std::min(below(12), text.size() - at);
        switch (below(5)) {
            case 0: text.insert(at, words_.empty() ? std::string(1, any_byte()) : words_[below(words_.size())]); break;
            case 1: text.erase(at, length); break;
            case 2: text.insert(below(text.size() + 1), text.substr(at, length)); break;
            case 3: {
                const std::string& other = seeds_[below(seeds_.size())];
                text.insert(at, other.substr(below(other.size() + 1), below(24)));
                break;
            }
            default: if (at < text.size()) text[at] = any_byte();
        }
    }
    size_t below(size_t bound) { return static_cast<size_t>(draw_() % bound); }

private:
    char any_byte() { return static_cast<char>(below(256)); }

    std::vector<std::string> seeds_, words_;
    std::mt19937_64 draw_{1};
};

void run(const NamedTarget& target) {
    running = target.name;
    target.run(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

size_t try_target(const NamedTarget& target, const std::filesystem::path& home, size_t count) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(home / "seeds" / target.name)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> seeds;
    for (const auto& path : paths) seeds.push_back(contents(path));
    Changes changes(seeds, words_of(home / (std::string(target.name) + ".dict")));
    size_t inputs = 0;
    for (const std::string& seed : seeds) {
        for (size_t round = 0; round <= count; ++round, ++inputs) {
            input = seed;
            for (size_t left = round ? 1 + changes.below(4) : 0; left; --left) changes.change(input);
            run(target);
        }
    }
    return inputs;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return std::fprintf(stderr, "usage: fuzz_twin tests/fuzz CHANGES\n"), 2;
    std::signal(SIGABRT, report);
    for (const NamedTarget& target : targets) {
        size_t inputs = try_target(target, arguments[1], std::strtoul(arguments[2], nullptr, 10));
        std::printf("%s: %zu inputs\n", target.name, inputs);
        if (!inputs) return 1;
    }
}
