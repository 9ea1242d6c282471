// Whose an error is, for those who count them.
#pragma once

#include "base/result.h"

namespace ibid::serve {

// Whether the request has to change before it can be answered (a 4xx of HTTP). Otherwise the server could not do what
// it should, or the client has gone, or has come too early (kBusy).
inline bool is_of_request(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kContextFull:
    case ErrorCode::kNotFound:
    case ErrorCode::kLimitExceeded:
    case ErrorCode::kDuplicate:
    case ErrorCode::kBadNumber:
    case ErrorCode::kTooLong:
    case ErrorCode::kTemplateError:
    case ErrorCode::kTemplateRaise:
    case ErrorCode::kTemplateBudget: return true;
    default: return false;
  }
}

}  // namespace ibid::serve
