#include "ibid/turn.h"

namespace ibid {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kStopString: return "stop_string";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kRepetition: return "repetition";
  }
  return "unknown";
}

}  // namespace ibid
