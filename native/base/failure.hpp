// What native code throws when the world, not the program, is wrong. bindings.cpp turns a Failure into the
// Python exception of the same code (see src/treecast/errors.py); nothing else is thrown on purpose.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace treecast {

enum class Family : uint8_t { query, document, snapshot };

struct Failure : std::exception {
    Family family = Family::query;
    bool limit = false;          // also a LimitError
    std::string code;            // "TC102"
    std::string message;         // one sentence, without code, caret or hint
    std::string hint;            // what to do instead; may be empty
    uint64_t position = 0;       // byte offset into the query text or the document as given
    uint64_t length = 0;         // bytes under the caret; 0 where there is no such range
    uint64_t line = 0;           // documents only, from 1

    Failure(Family family_, std::string code_, std::string message_, uint64_t position_ = 0)
        : family(family_), code(std::move(code_)), message(std::move(message_)), position(position_) {}
    const char* what() const noexcept override { return message.c_str(); }
};

}  // namespace treecast
