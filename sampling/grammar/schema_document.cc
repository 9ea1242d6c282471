#include "sampling/grammar/schema_document.h"

#include <utility>
#include <vector>

namespace ibid {
namespace {

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) -> int {
      const char c = at < text.size() ? text[at] : '\0';
      if (c >= '0' && c <= '9') return c - '0';
      const char lower = static_cast<char>(c | 0x20);
      return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
    };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// A part of a JSON pointer (RFC 6901).
std::string unescaped_name(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1')) {
      out += part[++i] == '0' ? '~' : '/';
    } else {
      out += part[i];
    }
  }
  return out;
}

const Json* child_of(const Json& value, const std::string& name) {
  if (value.is_object()) {
    const auto found = value.find(name);
    return found == value.end() ? nullptr : &found.value();
  }
  if (!value.is_array() || name.empty() || name.size() > 9 || name.find_first_not_of("0123456789") != name.npos) {
    return nullptr;
  }
  const size_t i = std::stoul(name);
  return i < value.size() ? &value[i] : nullptr;
}

}  // namespace

std::string child_pointer(const std::string& pointer, std::string_view name) {
  std::string out = pointer + '/';
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

Status schema_error(ErrorCode code, const std::string& pointer, std::string_view keyword, std::string_view what) {
  const std::string place = keyword.empty() ? pointer : child_pointer(pointer, keyword);
  return {code, "schema: " + place + ": " + std::string(what)};
}

Result<SchemaDocument> SchemaDocument::create(const Json& root) {
  SchemaDocument out(root);
  if (!root.is_object()) return out;
  if (const auto id = root.find("$id"); id != root.end() && id->is_string()) out.id_ = id->get<std::string>();
  std::vector<std::pair<const Json*, std::string>> work = {{&root, "#"}};
  while (!work.empty()) {
    const auto [value, pointer] = std::move(work.back());
    work.pop_back();
    for (const auto& item : value->items()) {
      if (item.value().is_structured()) work.emplace_back(&item.value(), child_pointer(pointer, item.key()));
    }
    if (!value->is_object()) continue;
    const auto anchor = value->find("$anchor");
    if (anchor == value->end() || !anchor->is_string()) continue;
    if (!out.anchors_.emplace(anchor->get<std::string>(), SubSchema{*value, pointer}).second) {
      return schema_error(ErrorCode::kInvalidArgument, pointer, "$anchor", "a name that is there twice");
    }
  }
  return out;
}

Result<SubSchema> SchemaDocument::resolve(const std::string& reference, const std::string& pointer) const {
  std::string_view rest = reference;
  if (!id_.empty() && rest.starts_with(id_)) rest.remove_prefix(id_.size());
  if (rest.empty() || rest == "#") return SubSchema{*root_, "#"};
  if (!rest.starts_with('#')) {
    return schema_error(ErrorCode::kUnsupported, pointer, "$ref", "\"" + reference + "\" is in another document");
  }
  const std::string fragment = percent_decoded(rest.substr(1));
  const auto missing = [&] {
    return schema_error(ErrorCode::kInvalidArgument, pointer, "$ref", "\"" + reference + "\" is not in the schema");
  };
  if (!fragment.starts_with('/')) {
    const auto found = anchors_.find(fragment);
    return found == anchors_.end() ? Result<SubSchema>(missing()) : found->second;
  }
  const Json* at = root_;
  for (size_t begin = 1;;) {
    const size_t end = std::min(fragment.find('/', begin), fragment.size());
    at = child_of(*at, unescaped_name(std::string_view(fragment).substr(begin, end - begin)));
    if (at == nullptr) return missing();
    if (end == fragment.size()) break;
    begin = end + 1;
  }
  return SubSchema{*at, "#" + fragment};
}

}  // namespace ibid
