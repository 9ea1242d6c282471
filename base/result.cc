#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace ibid {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk: return "Ok";
    case ErrorCode::kIo: return "Io";
    case ErrorCode::kNotRegularFile: return "NotRegularFile";
    case ErrorCode::kChangedOnDisk: return "ChangedOnDisk";
    case ErrorCode::kTruncated: return "Truncated";
    case ErrorCode::kBadMagic: return "BadMagic";
    case ErrorCode::kUnsupportedVersion: return "UnsupportedVersion";
    case ErrorCode::kBadHeader: return "BadHeader";
    case ErrorCode::kLimitExceeded: return "LimitExceeded";
    case ErrorCode::kBadString: return "BadString";
    case ErrorCode::kDuplicate: return "Duplicate";
    case ErrorCode::kBadType: return "BadType";
    case ErrorCode::kBadNumber: return "BadNumber";
    case ErrorCode::kBadShape: return "BadShape";
    case ErrorCode::kOverflow: return "Overflow";
    case ErrorCode::kBadAlignment: return "BadAlignment";
    case ErrorCode::kBadOffset: return "BadOffset";
    case ErrorCode::kMissingShard: return "MissingShard";
    case ErrorCode::kMismatch: return "Mismatch";
    case ErrorCode::kCorrupt: return "Corrupt";
    case ErrorCode::kUnsafePath: return "UnsafePath";
    case ErrorCode::kMissingKey: return "MissingKey";
    case ErrorCode::kMissingTensor: return "MissingTensor";
    case ErrorCode::kBadHyperparameter: return "BadHyperparameter";
    case ErrorCode::kNonFinite: return "NonFinite";
    case ErrorCode::kUnsupported: return "Unsupported";
    case ErrorCode::kBadVocab: return "BadVocab";
    case ErrorCode::kBadMerge: return "BadMerge";
    case ErrorCode::kBadByteToken: return "BadByteToken";
    case ErrorCode::kTooLong: return "TooLong";
    case ErrorCode::kTemplateSyntax: return "TemplateSyntax";
    case ErrorCode::kTemplateError: return "TemplateError";
    case ErrorCode::kTemplateRaise: return "TemplateRaise";
    case ErrorCode::kTemplateBudget: return "TemplateBudget";
    case ErrorCode::kInvalidArgument: return "InvalidArgument";
    case ErrorCode::kContextFull: return "ContextFull";
    case ErrorCode::kOutOfMemory: return "OutOfMemory";
    case ErrorCode::kCancelled: return "Cancelled";
    case ErrorCode::kBusy: return "Busy";
    case ErrorCode::kNotFound: return "NotFound";
    case ErrorCode::kDeadline: return "Deadline";
  }
  return "Unknown";
}

std::string Status::to_string() const {
  std::string text(error_code_name(code_));
  if (!message_.empty()) text += ": " + message_;
  return text;
}

void Status::misused(const char* how) const {
  std::fprintf(stderr, "ibid: CHECK failed: %s: %s\n", how, message_.c_str());
  std::abort();
}

}  // namespace ibid
