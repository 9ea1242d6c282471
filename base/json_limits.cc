#include "base/json_limits.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"

template <>
void ibid::Json::json_value::destroy(value_t type) {
  switch (type) {
    case value_t::object: delete object; break;
    case value_t::array: delete array; break;
    case value_t::string: delete string; break;
    case value_t::binary: delete binary; break;
    default: break;
  }
}

namespace ibid {

namespace {

// nlohmann-json's out_of_range error for a number that overflows double.
constexpr int kNumberOverflowId = 406;

// Maximum length of a parser message, which may quote megabytes of arbitrary bytes from the offending text.
constexpr size_t kMaxQuotedBytes = 160;

// Returns nlohmann's message without its prefix "[json.exception.parse_error.101] parse error at line 1, column 2: ".
std::string plain_words(std::string words) {
  if (const size_t at = words.find("] "); at != std::string::npos) words.erase(0, at + 2);
  if (words.starts_with("parse error")) {
    if (const size_t at = words.find(": "); at != std::string::npos) words.erase(0, at + 2);
  }
  if (words.size() > kMaxQuotedBytes) words = words.substr(0, kMaxQuotedBytes) + "...";
  return utf8_sanitize(words);
}

// Base of Counter and Builder, the two passes over a text: records the first error. nlohmann's SAX parser keeps its
// stack on the heap, so a text nested 100000 levels deep costs one bit per level and no recursion.
class SaxErrors {
 public:
  explicit SaxErrors(std::string_view what) : what_(what) {}

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    const bool number = error.id == kNumberOverflowId;
    fail(number ? ErrorCode::kBadNumber : ErrorCode::kBadHeader,
         (number ? "a number beyond the range of double at byte " : "not valid JSON at byte ") +
             std::to_string(position) + ": " + plain_words(error.what()));
    return false;
  }

  // The first error, or ok.
  const Status& status() const { return status_; }

 protected:
  bool fail(ErrorCode code, const std::string& words) {
    if (status_.ok()) status_ = Status(code, std::string(what_) + ": " + words);
    return false;
  }

 private:
  std::string_view what_;
  Status status_;
};

// First pass: checks the limits by counting. Its memory does not grow with the number of values.
class Counter : public SaxErrors {
 public:
  Counter(std::string_view what, const JsonLimits& limits) : SaxErrors(what), limits_(limits) {}

  bool null() { return value(); }
  bool boolean(bool) { return value(); }
  bool number_integer(int64_t) { return value(); }
  bool number_unsigned(uint64_t) { return value(); }
  bool number_float(double, const std::string&) { return value(); }
  bool string(std::string&) { return value(); }
  bool binary(Json::binary_t&) { return value(); }
  bool key(std::string&) { return true; }
  bool start_object(size_t) { return open(); }
  bool start_array(size_t) { return open(); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

 private:
  bool value() {
    if (++values_ <= limits_.max_values) return true;
    return fail(ErrorCode::kLimitExceeded, "more than " + std::to_string(limits_.max_values) + " JSON values");
  }
  bool open() {
    if (++depth_ <= limits_.max_depth) return value();
    return fail(ErrorCode::kLimitExceeded, "JSON nested deeper than " + std::to_string(limits_.max_depth) + " levels");
  }
  bool close() {
    --depth_;
    return true;
  }

  const JsonLimits& limits_;
  size_t values_ = 0;
  size_t depth_ = 0;
};

// Second pass: builds the DOM. nlohmann's own builder searches linearly for every new key of an ordered object, so a
// vocabulary of 150000 entries would take 10^10 comparisons. This builder sorts the keys once per object.
class Builder : public SaxErrors {
 public:
  Builder(std::string_view what, const JsonLimits& limits) : SaxErrors(what), limits_(limits) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool key(std::string& key) {
    open_.back().key = std::move(key);
    return true;
  }
  bool start_object(size_t) {
    open_.push_back({.is_object = true, .key = {}, .members = {}, .elements = {}});
    return true;
  }
  bool start_array(size_t) {
    open_.push_back({.is_object = false, .key = {}, .members = {}, .elements = {}});
    return true;
  }
  bool end_array() {
    Json array(std::move(open_.back().elements));
    open_.pop_back();
    return put(std::move(array));
  }
  bool end_object() {
    std::vector<Member> members = std::move(open_.back().members);
    open_.pop_back();
    if (!merge_duplicates(members)) return false;
    Json::object_t object;
    // Use the base vector's emplace_back: ordered_map's own would search for the key.
    using Rows = Json::object_t::Container;
    auto& rows = static_cast<Rows&>(object);
    rows.reserve(members.size());
    for (Member& member : members) rows.emplace_back(std::move(member.first), std::move(member.second));
    return put(Json(std::move(object)));
  }

  Json take() { return std::move(root_); }

 private:
  using Member = std::pair<std::string, Json>;
  struct Open {
    bool is_object;
    std::string key;  // key of the next value
    std::vector<Member> members;
    Json::array_t elements;
  };

  bool put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& parent = open_.back(); parent.is_object) {
      parent.members.emplace_back(std::move(parent.key), std::move(value));
    } else {
      parent.elements.push_back(std::move(value));
    }
    return true;
  }

  // Reports a duplicate key or, if duplicates are allowed, keeps the last value at the place of the first (as Python's
  // json and JavaScript do).
  bool merge_duplicates(std::vector<Member>& members) {
    std::vector<size_t> order(members.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&members](size_t a, size_t b) {
      const int c = members[a].first.compare(members[b].first);
      return c != 0 ? c < 0 : a < b;
    });
    std::vector<size_t> dropped;
    size_t first = 0;
    for (size_t i = 1; i < order.size(); ++i) {
      if (members[order[i]].first != members[order[first]].first) {
        first = i;
        continue;
      }
      if (!limits_.allow_duplicate_keys) {
        return fail(ErrorCode::kDuplicate,
                    "the JSON key \"" + plain_words(members[order[i]].first) + "\" appears twice in one object");
      }
      members[order[first]].second = std::move(members[order[i]].second);
      dropped.push_back(order[i]);
    }
    std::sort(dropped.begin(), dropped.end());
    for (size_t i = dropped.size(); i-- > 0;) {
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(dropped[i]));
    }
    return true;
  }

  const JsonLimits& limits_;
  std::vector<Open> open_;
  Json root_;
};

// Parses the whole text with one pass.
template <typename Pass>
Status run_pass(std::string_view text, Pass& pass) {
  const bool ok = Json::sax_parse(text.begin(), text.end(), &pass);
  CHECK(ok == pass.status().ok()) << pass.status().message();
  return pass.status();
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  CHECK_LE(limits.max_depth, kMaxJsonDepth);
  if (text.size() > limits.max_bytes) {
    return Status(ErrorCode::kLimitExceeded, std::string(what) + ": " + std::to_string(text.size()) +
                                                 " bytes of JSON, at most " + std::to_string(limits.max_bytes) +
                                                 " are allowed");
  }
  // The parser takes a NUL for the end of the text and would ignore all that follows.
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    return Status(ErrorCode::kBadHeader,
                  std::string(what) + ": not valid JSON at byte " + std::to_string(at) + ": a NUL byte");
  }
  Counter counter(what, limits);
  TRY(run_pass(text, counter));
  Builder builder(what, limits);
  TRY(run_pass(text, builder));
  return builder.take();
}

std::string json_to_string(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace ibid
