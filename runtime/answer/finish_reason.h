// Why an answer ended.
#pragma once

#include <string_view>

namespace ibid {

enum class FinishReason {
  kStop,        // the model ended its turn
  kLength,      // max_tokens, or the context is full
  kStopString,  // a stop string of the options
  kCancelled,   // the stop token
  kRepetition,  // the answer has begun to repeat itself (sampling/repetition.h)
};
// "stop", "length", "stop_string", "cancelled", "repetition".
std::string_view finish_reason_name(FinishReason reason);

}  // namespace ibid
