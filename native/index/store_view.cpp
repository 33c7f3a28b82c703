// What readers of a Store see: publishing a View, and handing it out.
//
// Publishing exchanges one pointer under a short lock. Readers keep their old View, and its memory, until they are done.
#include "index/store.hpp"

#include <memory>
#include <mutex>
#include <utility>

namespace treecast {

// A View with everything allocated, so that publish() cannot fail.
std::shared_ptr<View> Store::new_view() const {
    auto view = std::make_shared<View>();
    view->engine_state = engine_->make_state();
    return view;
}

void Store::publish(std::shared_ptr<View> view) noexcept {
    const Body& body = *body_;
    view->token = body.views;
    view->deaths = body.deaths.share();
    view->order = body.order.share();
    view->id_ends = body.id_ends.share();
    view->id_bytes = body.id_bytes.share();
    view->texts = body.texts.share();
    view->settings = body.settings;
    view->settings_size = body.settings->size();
    view->slots = body.slots();
    view->version = body.version;
    view->serial = body.serial;
    if (view->engine_state) engine_->fill(*view->engine_state);
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
