#include "templates/reply/json_scanner.h"

#include "base/json_limits.h"

namespace ibid {
namespace {

const size_t kMaxOpen = JsonLimits().max_depth;  // parse_json() refuses what is deeper

bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_hexadecimal(char c) { return is_decimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

JsonScanner::State JsonScanner::push(char c) {
  const State state = take(c);
  if (state != State::kBad) ++n_taken_;
  return state;
}

JsonScanner::State JsonScanner::take(char c) {
  switch (wants_) {
    case Wants::kInString:
    case Wants::kEscaped:
    case Wants::kHex: return in_string(c);
    case Wants::kNumber: return in_number(c);
    case Wants::kWord:
      if (c != word_.front()) return bad();
      word_.remove_prefix(1);
      return word_.empty() ? (++n_taken_, end_value(), --n_taken_, state_) : state_;
    default: break;
  }
  if (wants_ != Wants::kBegin && is_json_space(c)) return state_;
  switch (wants_) {
    case Wants::kBegin: return c == '{' ? open(c) : bad();
    case Wants::kFirstElement:
      if (c == ']') return close(c);
      return begin_value(c);
    case Wants::kValue: return begin_value(c);
    case Wants::kFirstKey:
      if (c == '}') return close(c);
      [[fallthrough]];
    case Wants::kKey:
      if (c != '"') return bad();
      is_key_ = true;
      if (open_.size() == 1) members_.push_back({.key_begin = n_taken_});
      return go_on(Wants::kInString);
    case Wants::kColon: return c == ':' ? go_on(Wants::kValue) : bad();
    default: break;
  }
  if (c == '}' || c == ']') return close(c);
  if (c != ',') return bad();
  return go_on(open_.back() == '{' ? Wants::kKey : Wants::kValue);
}

JsonScanner::State JsonScanner::begin_value(char c) {
  if (open_.size() == 1 && open_.back() == '{') members_.back().value_begin = n_taken_;
  if (c == '{' || c == '[') return open(c);
  if (c == '"') {
    is_key_ = false;
    return go_on(Wants::kInString);
  }
  if (c == 't' || c == 'f' || c == 'n') {
    word_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    return go_on(Wants::kWord);
  }
  if (c != '-' && !is_decimal(c)) return bad();
  digits_ = c == '-' ? Digits::kMinus : c == '0' ? Digits::kZero : Digits::kWhole;
  return go_on(Wants::kNumber);
}

JsonScanner::State JsonScanner::in_string(char c) {
  if (wants_ == Wants::kHex) {
    if (!is_hexadecimal(c)) return bad();
    return --n_hex_ == 0 ? go_on(Wants::kInString) : state_;
  }
  if (wants_ == Wants::kEscaped) {
    if (c == 'u') {
      n_hex_ = 4;
      return go_on(Wants::kHex);
    }
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    return kEscapes.find(c) == kEscapes.npos ? bad() : go_on(Wants::kInString);
  }
  if (c == '\\') return go_on(Wants::kEscaped);
  if (c == '"') return end_string();
  return static_cast<unsigned char>(c) < 0x20 ? bad() : state_;
}

JsonScanner::State JsonScanner::end_string() {
  ++n_taken_;
  if (!is_key_) {
    end_value();
  } else {
    if (open_.size() == 1) members_.back().key_end = n_taken_;
    go_on(Wants::kColon);
  }
  --n_taken_;
  return state_;
}

// A number ends with the byte behind it, which is then taken as what it is.
JsonScanner::State JsonScanner::in_number(char c) {
  const bool digit = is_decimal(c);
  switch (digits_) {
    case Digits::kMinus:
      if (!digit) return bad();
      digits_ = c == '0' ? Digits::kZero : Digits::kWhole;
      return state_;
    case Digits::kPoint:
      if (!digit) return bad();
      digits_ = Digits::kFraction;
      return state_;
    case Digits::kE:
      if (c == '+' || c == '-') {
        digits_ = Digits::kSign;
        return state_;
      }
      [[fallthrough]];
    case Digits::kSign:
      if (!digit) return bad();
      digits_ = Digits::kExponent;
      return state_;
    default: break;
  }
  if (digit) return digits_ == Digits::kZero ? bad() : state_;
  if (c == '.' && (digits_ == Digits::kZero || digits_ == Digits::kWhole)) {
    digits_ = Digits::kPoint;
    return state_;
  }
  if ((c == 'e' || c == 'E') && digits_ != Digits::kExponent) {
    digits_ = Digits::kE;
    return state_;
  }
  end_value();
  return take(c);
}

// n_taken_ is the first byte behind the value.
JsonScanner::State JsonScanner::end_value() {
  if (open_.size() == 1 && open_.back() == '{') members_.back().value_end = n_taken_;
  return go_on(Wants::kNext);
}

JsonScanner::State JsonScanner::open(char brace) {
  if (open_.size() == kMaxOpen) return bad();
  open_.push_back(brace);
  return go_on(brace == '{' ? Wants::kFirstKey : Wants::kFirstElement);
}

JsonScanner::State JsonScanner::close(char brace) {
  if (open_.back() != (brace == '}' ? '{' : '[')) return bad();
  open_.pop_back();
  if (open_.empty()) return state_ = State::kDone;
  ++n_taken_;
  end_value();
  --n_taken_;
  return state_;
}

}  // namespace ibid
