// The regular expressions that one thread has run, with the states that values have led to: each is compiled once, as long as there is room.
#pragma once

#include "regex/regex_run.hpp"

namespace treecast {

class RegexCache {
public:
    static constexpr size_t bytes_max = 64u << 20;       // of all together; beyond it all are forgotten

    // Whether the value matches. The pattern and its flags were accepted before. `steps`: see RegexRun::matches.
    bool matches(std::string_view pattern, std::string_view flags, std::string_view value, uint64_t& steps) {
        if (bytes_ > bytes_max) {
            runs_.clear();
            bytes_ = 0;
        }
        key_.assign(flags);
        (key_ += '/') += pattern;
        auto found = runs_.find(key_);
        if (found == runs_.end()) {
            found = runs_.emplace(key_, RegexRun(Regex(pattern, flags))).first;
            bytes_ += found->second.bytes() + key_.size();
            steps += pattern.size();
        }
        RegexRun& run = found->second;
        const size_t before = run.bytes();
        const bool holds = run.matches(value, steps);
        bytes_ += run.bytes() - before;
        return holds;
    }

private:
    TextMap<RegexRun> runs_;
    std::string key_;
    size_t bytes_ = 0;
};

}  // namespace treecast
