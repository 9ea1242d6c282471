// ConversationHolder: whoever keeps a conversation for requests that name it, such as a session of SessionDirectory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "apps/serve/service/conversation.h"
#include "base/result.h"

namespace ibid::serve {

class ConversationHolder {
 public:
  virtual ~ConversationHolder() = default;
  // Takes the conversation for one request. Error: kBusy: another one has it; kNotFound: it is gone.
  virtual Result<Conversation> take() = 0;
  // Gives it back, as it is now. Whoever took it calls this once.
  virtual void put(Conversation conversation) = 0;
};

}  // namespace ibid::serve
