// How each engine's model writes answers (templates/reply/reply_format.h), found once for each. Thread-safe.
#pragma once

#include <memory>

#include "runtime/engine/engine.h"
#include "templates/reply/reply_format.h"

namespace ibid::serve {

// Of a model without a template: all is content.
std::shared_ptr<const ReplyFormat> reply_format_of(const std::shared_ptr<Engine>& engine);

}  // namespace ibid::serve
