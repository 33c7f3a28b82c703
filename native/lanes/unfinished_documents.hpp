// Documents of which deliveries are not done, and what each message says of them. In the order of their numbers, which ascend: mostly
// one after the other, so a document is found by its distance from the first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <stdexcept>

namespace treecast {

class UnfinishedDocuments {
public:
    struct Document {
        int64_t number;
        uint32_t deliveries;                    // that are not done
        uint32_t origin;
        int64_t published_ms, origin_number;
    };

    // After all others, with a delivery at least.
    void add(const Document& document) {
        if (!documents_.empty() && document.number <= documents_.back().number) throw std::logic_error("the numbers of documents ascend");
        // Between those that somebody is slow with there may be many that are done.
        if (documents_.size() > 2 * count_ + few) std::erase_if(documents_, [](const Document& one) { return !one.deliveries; });
        documents_.push_back(document);
        ++count_;
    }
    // One that is here.
    const Document& operator[](int64_t number) const { return documents_[place_of(number)]; }
    void finish(int64_t number, uint32_t deliveries) {
        Document& document = documents_[place_of(number)];
        if (document.deliveries -= deliveries) return;
        --count_;
        while (!documents_.empty() && !documents_.front().deliveries) documents_.pop_front();
    }
    size_t size() const { return count_; }
    int64_t first() const { return documents_.empty() ? 0 : documents_.front().number; }

private:
    static constexpr size_t few = 64;           // not worth looking for

    size_t place_of(int64_t number) const {
        // Nowhere behind its distance from the first; before that, if some in between were nobody's.
        const size_t place = std::min(static_cast<size_t>(number - documents_.front().number), documents_.size() - 1);
        if (documents_[place].number == number) return place;
        auto end = documents_.begin() + static_cast<std::ptrdiff_t>(place);
        auto known = std::lower_bound(documents_.begin(), end, number, [](const Document& one, int64_t wanted) { return one.number < wanted; });
        return static_cast<size_t>(known - documents_.begin());
    }

    std::deque<Document> documents_;            // some of them are done, but not the first
    size_t count_ = 0;                          // of the others
};

}  // namespace treecast
