#include "sampling/sampler_options.h"

#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "sampling/repeat_index.h"

namespace ibid {
namespace {

Status out_of_range(const std::string& name, double value, const char* range) {
  std::ostringstream text;  // to_string() would write 1e-9 as 0.000000
  text << name << ": " << value << ", allowed is " << range;
  return {ErrorCode::kInvalidArgument, text.str()};
}

Status check_id(const std::string& name, TokenId id, size_t vocab_size) {
  if (id >= 0 && static_cast<size_t>(id) < vocab_size) return {};
  const std::string range = vocab_size > std::numeric_limits<TokenId>::max() ? "not negative"
                                                                             : "0 to " + std::to_string(vocab_size - 1);
  return {ErrorCode::kInvalidArgument, name + ": token id " + std::to_string(id) + ", allowed is " + range};
}

}  // namespace

Status check_sampler_options(const SamplerOptions& o, size_t vocab_size) {
  struct Range {
    const char* name;
    double value;
    double least;
    double most;
    bool above_least;  // the least is not allowed itself
    const char* text;
  };
  const std::array<Range, 11> ranges = {{
      {"temperature", o.temperature, 0, 100, false, "0 to 100"},
      {"top_p", o.top_p, 0, 1, true, "above 0, to 1"},
      {"min_p", o.min_p, 0, 1, false, "0 to 1"},
      {"typical_p", o.typical_p, 0, 1, true, "above 0, to 1"},
      {"xtc_probability", o.xtc_probability, 0, 1, false, "0 to 1"},
      {"xtc_threshold", o.xtc_threshold, 0, 1, false, "0 to 1"},
      {"repetition_penalty", o.repetition_penalty, 0, 100, true, "above 0, to 100"},
      {"frequency_penalty", o.frequency_penalty, -2, 2, false, "-2 to 2"},
      {"presence_penalty", o.presence_penalty, -2, 2, false, "-2 to 2"},
      {"dry_multiplier", o.dry_multiplier, 0, 1000, false, "0 to 1000"},
      {"dry_base", o.dry_base, 1, 100, false, "1 to 100"},
  }};
  for (const Range& r : ranges) {
    // Written so that NaN fails each of them.
    const bool inside = r.value >= r.least && r.value <= r.most && !(r.above_least && r.value == r.least);
    if (!inside) return out_of_range(r.name, r.value, r.text);
  }
  if (o.dry_allowed_length < 1 || o.dry_allowed_length > RepeatIndex::kMaxMatch) {
    return {ErrorCode::kInvalidArgument, "dry_allowed_length: " + std::to_string(o.dry_allowed_length) +
                                             ", allowed is 1 to " + std::to_string(RepeatIndex::kMaxMatch)};
  }
  for (const TokenId id : o.dry_breakers) TRY(check_id("dry_breakers", id, vocab_size));
  for (const auto& [id, bias] : o.logit_bias) {
    TRY(check_id("logit_bias", id, vocab_size));
    if (!(bias >= -100 && bias <= 100) && bias != -std::numeric_limits<double>::infinity()) {
      return out_of_range("logit_bias of token id " + std::to_string(id), bias, "-100 to 100, or -inf");
    }
  }
  return {};
}

}  // namespace ibid
