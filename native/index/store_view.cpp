// What readers of a Store see: publishing a View, and handing it out.
//
// Publishing exchanges one pointer under a short lock. Readers keep their old View, and its memory, until they are done.
//
// A View holds some thirty arrays and machines, of which a change replaces one or two. So a View that nobody holds any more is used again,
// and only what is new in it is exchanged. PERF: bench/churn.py.
#include "index/store.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace treecast {

// A View with everything allocated, so that publish() cannot fail.
std::shared_ptr<View> Store::new_view() {
    if (spare_) return std::exchange(spare_, nullptr);
    ++views_made_;
    auto view = std::make_shared<View>();
    view->engine_state = engine_->make_state();
    return view;
}

void Store::fill(View& view) const noexcept {
    const Body& body = *body_;
    body.deaths.share_with(view.deaths);
    body.order.share_with(view.order);
    body.id_ends.share_with(view.id_ends);
    body.id_bytes.share_with(view.id_bytes);
    body.texts.share_with(view.texts);
    hold(view.settings, body.settings);
    view.settings_size = body.settings->size();
    view.slots = body.slots();
    view.version = body.version;
    view.serial = body.serial;
    if (view.engine_state) engine_->fill(*view.engine_state);
}

void Store::publish(std::shared_ptr<View> view) noexcept {
    fill(*view);
    view->token = body_->views;
    {
        std::lock_guard lock(view_mutex_);
        view_.swap(view);
    }
    if (view) keep_spare(std::move(view));
}

// Nobody can come to hold a View that is not the present one, so whoever is the last to hold it may write to it. Copying it lets the
// thread sanitizer see that those who held it are done, as in commit_removal().
void Store::keep_spare(std::shared_ptr<View> view) noexcept {
    auto copy = view;
    if (copy.use_count() != 2) return;
    std::atomic_thread_fence(std::memory_order_acquire);
    view->token = nullptr;
    fill(*view);
    spare_ = std::move(view);
}

std::shared_ptr<const View> Store::view() const {
    std::lock_guard lock(view_mutex_);
    return view_;
}

}  // namespace treecast
