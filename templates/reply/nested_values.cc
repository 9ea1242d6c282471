#include "templates/reply/nested_values.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "templates/reply/json_scanner.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/schema_check.h"

namespace ibid {
namespace {

constexpr size_t kMaxDepth = 40;
constexpr std::string_view kItem = "item";

// Used once. Its functions return nullopt if the text is something else.
class NestedReader {
 public:
  NestedReader(std::string_view text, const ParameterSyntax& syntax, const Json& root)
      : text_(text), syntax_(syntax), root_(root) {}

  std::optional<std::string> read_whole(const Json& schema) {
    std::optional<std::string> value = read_elements(schema, 0);
    skip_spaces();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && is_marker_space(text_[at_])) ++at_;
  }
  bool take(std::string_view words) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(words)) return false;
    at_ += words.size();
    return true;
  }
  bool at_closing() const { return text_.substr(at_).starts_with(syntax_.after_value); }

  std::optional<std::string> read_elements(const Json& schema, size_t depth) {
    if (depth == kMaxDepth) return std::nullopt;
    const Json* resolved = &schema;
    if (const Json* reference = object_member(schema, "$ref"); reference != nullptr && reference->is_string()) {
      const Json* found = referred_schema(root_, reference->get_ref<const std::string&>());
      if (found != nullptr) resolved = found;
    }
    std::string members;
    size_t n_items = 0, n_members = 0;
    for (skip_spaces(); at_ < text_.size() && !at_closing(); skip_spaces()) {
      if (!take(syntax_.before_key)) return std::nullopt;
      const size_t end = text_.find(syntax_.before_value, at_);
      if (end == text_.npos || end == at_) return std::nullopt;
      const std::string_view key = text_.substr(at_, end - at_);
      if (key.find_first_of("<> \n\t\r") != key.npos) return std::nullopt;
      at_ = end + syntax_.before_value.size();
      const std::optional<std::string> value = read_value(key, schema_of(*resolved, key), depth + 1);
      if (!value) return std::nullopt;
      const bool is_item = key == kItem;
      members += (n_members++ > 0 ? ", " : "") + (is_item ? "" : json_string(key) + ": ") + *value;
      n_items += is_item ? 1 : 0;
    }
    if (n_members == 0 || (n_items > 0 && n_items < n_members)) return std::nullopt;
    return n_items > 0 ? "[" + members + "]" : "{" + members + "}";
  }

  static const Json& schema_of(const Json& schema, std::string_view key) {
    static const Json& any = *new Json(true);
    const Json* properties = object_member(schema, "properties");
    const Json* found = properties == nullptr ? nullptr : object_member(*properties, std::string(key).c_str());
    if (found == nullptr && key == kItem) found = object_member(schema, "items");
    return found == nullptr ? any : *found;
  }

  // Reads the value and its closing tag.
  std::optional<std::string> read_value(std::string_view key, const Json& schema, size_t depth) {
    const std::string closing = syntax_.after_value + std::string(key) + syntax_.after_closing_key;
    const AllowedTypes types = allowed_types(schema, root_);
    const size_t begin = at_;
    skip_spaces();
    if (!types.string && text_.substr(at_).starts_with(syntax_.before_key) && !at_closing()) {
      std::optional<std::string> value = read_elements(schema, depth);
      if (!value || !take(closing)) return std::nullopt;
      return value;
    }
    at_ = begin;
    const size_t end = text_.find(closing, at_);
    if (end == text_.npos) return std::nullopt;
    std::string value = marked_value_json(text_.substr(at_, end - at_), types, {});
    at_ = end + closing.size();
    return value;
  }

  const std::string_view text_;
  const ParameterSyntax& syntax_;
  const Json& root_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string> nested_value_json(std::string_view text, const ParameterSyntax& syntax, const Json& schema,
                                             const Json& root) {
  return NestedReader(text, syntax, root).read_whole(schema);
}

}  // namespace ibid
