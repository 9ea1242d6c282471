#include "apps/serve/service/reply_formats.h"

#include <map>
#include <mutex>
#include <utility>

#include "templates/reply/find_reply_format.h"

namespace ibid::serve {

std::shared_ptr<const ReplyFormat> reply_format_of(const std::shared_ptr<Engine>& engine) {
  using Found = std::pair<std::weak_ptr<Engine>, std::shared_ptr<const ReplyFormat>>;
  static std::mutex mutex;
  static std::map<const Engine*, Found> all;  // guarded by it
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& one) { return one.second.first.expired(); });
  auto& [owner, format] = all[engine.get()];
  if (format == nullptr) {
    const ChatTemplate* chat_template = engine->chat_template();
    format = std::make_shared<const ReplyFormat>(chat_template == nullptr ? ReplyFormat()
                                                                          : find_reply_format(*chat_template));
    owner = engine;
  }
  return format;
}

}  // namespace ibid::serve
