// ReplyFormats: how each engine's model writes answers, found once for each. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/engine/engine.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/reply_format.h"

namespace ibid::serve {

class ReplyFormats {
 public:
  // Of a model without a template: all is content.
  std::shared_ptr<const ReplyFormat> of(const std::shared_ptr<Engine>& engine) {
    const std::lock_guard lock(mutex_);
    std::erase_if(found_, [](const auto& one) { return one.second.first.expired(); });
    auto& [owner, format] = found_[engine.get()];
    if (format == nullptr) {
      const ChatTemplate* chat_template = engine->chat_template();
      format = std::make_shared<const ReplyFormat>(chat_template == nullptr ? ReplyFormat()
                                                                            : find_reply_format(*chat_template));
      owner = engine;
    }
    return format;
  }

 private:
  std::mutex mutex_;
  std::map<const Engine*, std::pair<std::weak_ptr<Engine>, std::shared_ptr<const ReplyFormat>>> found_;
};

}  // namespace ibid::serve
