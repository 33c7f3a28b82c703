// What readers of a Store see: publishing a View, and handing it out.
#include "index/store.hpp"

#include <memory>
#include <mutex>
#include <utility>

namespace treecast {

void Store::publish(std::shared_ptr<View> view) noexcept {
    const Body& body = *body_;
    view->token = body.views;
    view->published = published_;
    view->labels = body.labels;
    view->places = body.places;
    view->delta = body.delta;
    view->heads = body.heads.share();
    view->next = body.next.share();
    view->deaths = body.deaths.share();
    view->order = body.order.share();
    view->extras = body.extras.share();
    view->id_ends = body.id_ends.share();
    view->id_bytes = body.id_bytes.share();
    view->text_bytes = body.text_bytes.share();
    view->text_ends = body.text_ends.share();
    view->slot_settings = body.slot_settings.share();
    view->judged = body.judged.share();
    view->settings = body.settings;
    view->settings_size = body.settings->size();
    view->slots = static_cast<uint32_t>(body.deaths.size());
    view->version = body.version;
    view->serial = body.serial;
    std::shared_ptr<const View> old;      // freed after the lock
    std::lock_guard lock(view_mutex_);
    old = std::move(view_);
    view_ = std::move(view);
}

std::shared_ptr<const View> Store::view() const {
    std::lock_guard lock(view_mutex_);
    return view_;
}

}  // namespace treecast
