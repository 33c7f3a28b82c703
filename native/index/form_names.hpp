// The names that routing forms speak of, as small numbers. A name of a document is looked up when it is first seen, and not once
// for each element: documents of a reader share their table of names.
#pragma once

#include "document/document.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class FormNames {
public:
    static constexpr uint32_t any = 0;                      // in a form: `*`
    static constexpr uint32_t strange = 1;                  // in a document: no form speaks of it

    // The number of a name, which one more place speaks of; no local part: any. leave() takes that back.
    uint32_t take(std::string_view uri, std::string_view local);
    void leave(uint32_t number);

    void begin(const NameTable& names) {                    // those of the next document
        if (names_ == &names && generation_ == names.generation()) return;
        names_ = &names;
        generation_ = names.generation();
        numbers_.clear();
    }
    // Of a name of that document.
    uint32_t number_of(uint32_t name) {
        if (name < numbers_.size() && numbers_[name]) [[likely]] return numbers_[name];
        return look_up(name);
    }

private:
    struct Less {
        using is_transparent = void;
        bool operator()(const auto& one, const auto& other) const {
            const int order = std::string_view(one.second).compare(other.second);
            return order ? order < 0 : std::string_view(one.first) < std::string_view(other.first);
        }
    };
    using Names = std::map<std::pair<std::string, std::string>, uint32_t, Less>;
    struct Use {
        uint32_t places = 0;
        Names::iterator name;
    };
    uint32_t look_up(uint32_t name);

    Names known_;
    std::vector<Use> uses_ = std::vector<Use>(2);           // by number
    std::vector<uint32_t> free_;
    const NameTable* names_ = nullptr;
    uint64_t generation_ = 0;
    std::vector<uint32_t> numbers_;                         // by name of the table; 0: not looked up yet
};

}  // namespace treecast
