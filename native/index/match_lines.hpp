// Matches as lines of text: what is in front of the subscription's part is the document's, and both exist once.
#pragma once

#include "base/output.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace treecast {

// Strings as Arrow has them: offsets of 32 or 64 bits, and bytes.
struct TextColumn {
    const void* offsets = nullptr;
    const char* bytes = nullptr;
    size_t size = 0;
    bool is_wide = false;
    std::string_view operator[](size_t i) const { return is_wide ? of<int64_t>(i) : of<int32_t>(i); }

private:
    template <class T>
    std::string_view of(size_t i) const {
        const T* ends = static_cast<const T*>(offsets);
        return {bytes + ends[i], static_cast<size_t>(ends[i + 1] - ends[i])};
    }
};

// Takes matches by document, and makes a line for each, in their order.
class MatchLines {
public:
    MatchLines(TextColumn starts, TextColumn ends) : starts_(starts), ends_(ends) {}
    // To be called when append() has nothing left. What is given stays until then.
    void give(std::span<const int64_t> documents, std::span<const int32_t> subscriptions) { documents_ = documents, subscriptions_ = subscriptions; }
    // Appends lines while there are fewer than so many bytes of text. False: nothing is left.
    bool append(size_t bytes, Bytes& out);

private:
    bool next_document();
    const TextColumn starts_, ends_;
    std::span<const int64_t> documents_;         // not begun yet
    std::span<const int32_t> subscriptions_;
    std::string_view start_;                     // of the document that is begun,
    std::span<const int32_t> of_document_;       // its subscriptions that are not done yet
};

}  // namespace treecast
