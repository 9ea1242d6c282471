#include "templates/reply/unmarked_calls.h"

#include <string>
#include <utility>

#include "base/json_limits.h"

namespace ibid {
namespace {

constexpr size_t kTicks = 3;

bool continues_language(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

bool UnmarkedCalls::may_begin(std::string_view text) {
  return text.front() == '{' || text.front() == '[' || text.front() == '`';
}

UnmarkedCalls::State UnmarkedCalls::read(std::string_view text, bool at_end) {
  for (; at_ < text.size(); ++at_) {
    if (!take(text)) return State::kBad;
  }
  if (!at_end) return State::kOpen;
  return expected_ == Expected::kUnit && !calls_.empty() ? State::kDone : State::kBad;
}

bool UnmarkedCalls::take(std::string_view text) {
  const char c = text[at_];
  const bool is_space = is_marker_space(c);
  switch (expected_) {
    case Expected::kUnit:
      if (is_space) return true;
      if (!may_go_on_) return false;
      if (c != '`') return take_brace(text);
      in_fence_ = true;
      n_ticks_ = 1;
      expected_ = Expected::kFence;
      return true;
    case Expected::kFence:
      if (c != '`') return false;
      if (++n_ticks_ == kTicks) expected_ = in_fence_ ? Expected::kLanguage : Expected::kUnit;
      return true;
    case Expected::kLanguage:
      if (continues_language(c)) return true;
      expected_ = Expected::kInner;
      return is_space || take_brace(text);
    case Expected::kInner: return is_space || take_brace(text);
    case Expected::kFirstElement:
    case Expected::kElement: return is_space || (c == '{' && take_brace(text));
    case Expected::kObject: return take_in_object(text);
    case Expected::kSecondBrace:
      if (c != '}') return is_space;
      expected_ = in_list_ ? Expected::kNext : in_fence_ ? Expected::kAfterUnit : Expected::kUnit;
      return true;
    case Expected::kNext:
      if (is_space) return true;
      if (c == ',') {
        expected_ = Expected::kElement;
        return true;
      }
      if (c != ']') return false;
      in_list_ = false;
      expected_ = in_fence_ ? Expected::kAfterUnit : Expected::kUnit;
      return true;
    case Expected::kAfterUnit: return is_space || take_after_unit(c);
  }
  return false;
}

bool UnmarkedCalls::take_after_unit(char c) {
  if (c != '`') return false;
  in_fence_ = false;
  n_ticks_ = 1;
  expected_ = Expected::kFence;
  return true;
}

bool UnmarkedCalls::take_brace(std::string_view text) {
  if (text[at_] == '[' && !in_list_ && calls_.empty()) {
    in_list_ = true;
    may_go_on_ = false;
    expected_ = Expected::kFirstElement;
    return true;
  }
  if (text[at_] != '{') return false;
  is_doubled_ = false;
  object_begin_ = at_;
  json_.emplace();
  expected_ = Expected::kObject;
  return json_->push('{') != JsonScanner::State::kBad;
}

bool UnmarkedCalls::take_in_object(std::string_view text) {
  const bool may_double = syntax_.envelope && syntax_.envelope->may_be_doubled;
  if (may_double && at_ == object_begin_ + 1 && text[at_] == '{' && !is_doubled_) {
    is_doubled_ = true;
    object_begin_ = at_;
    return true;
  }
  const JsonScanner::State state = json_->push(text[at_]);
  if (state == JsonScanner::State::kBad) return false;
  if (text[at_] == '"' && !keys_fit(text)) return false;
  return state == JsonScanner::State::kOpen || end_object(text);
}

// Returns whether a call may have the key that was read last.
bool UnmarkedCalls::keys_fit(std::string_view text) const {
  if (json_->members().empty() || json_->members().back().key_end == 0) return true;
  const JsonScanner::Member& member = json_->members().back();
  const std::string_view key = text.substr(object_begin_ + member.key_begin + 1, member.key_end - member.key_begin - 2);
  if (key == "name" || key == "arguments" || key == "parameters") return true;
  return syntax_.envelope && (key == syntax_.envelope->name_key || key == syntax_.envelope->arguments_key);
}

bool UnmarkedCalls::end_object(std::string_view text) {
  std::string name;
  std::string arguments;
  for (const JsonScanner::Member& member : json_->members()) {
    const std::string_view key =
        text.substr(object_begin_ + member.key_begin + 1, member.key_end - member.key_begin - 2);
    const std::string_view spelled =
        text.substr(object_begin_ + member.value_begin, member.value_end - member.value_begin);
    const Result<Json> value = parse_json(spelled, "a member of a call");
    if (!value.ok()) return false;
    const bool is_name = key == "name" || (syntax_.envelope && key == syntax_.envelope->name_key);
    if (is_name ? !name.empty() || !value->is_string() : !arguments.empty()) return false;
    if (is_name) {
      name = value->get_ref<const std::string&>();
    } else {
      // Some models write the arguments as a string of JSON.
      arguments = value->is_string() ? value->get_ref<const std::string&>() : std::string(spelled);
    }
  }
  const Result<Json> read = parse_json(arguments, "arguments of a call");
  if (!read.ok() || !tools_.accepts(name, *read)) return false;
  calls_.push_back({{}, std::move(name), std::move(arguments)});
  json_.reset();
  expected_ = is_doubled_ ? Expected::kSecondBrace
              : in_list_  ? Expected::kNext
              : in_fence_ ? Expected::kAfterUnit
                          : Expected::kUnit;
  return true;
}

}  // namespace ibid
