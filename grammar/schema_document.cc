#include "grammar/schema_document.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/text.h"
#include "grammar/configurations.h"
#include "grammar/grammar_rules.h"
#include "grammar/json_writer.h"

namespace ibid {
namespace {

// The parts of a URI, each with its delimiter: "http:", "//host", "/a/b", "?q", "#f"; empty if absent.
struct UriParts {
  std::string_view scheme, authority, path, query, fragment;
};

UriParts parts_of(std::string_view uri) {
  UriParts out;
  if (const size_t at = uri.find('#'); at != uri.npos) out.fragment = uri.substr(at), uri = uri.substr(0, at);
  if (const size_t at = uri.find('?'); at != uri.npos) out.query = uri.substr(at), uri = uri.substr(0, at);
  if (const size_t at = uri.find_first_of(":/"); at != uri.npos && at > 0 && uri[at] == ':') {
    out.scheme = uri.substr(0, at + 1);
    uri = uri.substr(at + 1);
  }
  if (uri.starts_with("//")) {
    out.authority = uri.substr(0, uri.find('/', 2));
    uri = uri.substr(out.authority.size());
  }
  out.path = uri;
  return out;
}

// Removes the segments "." and "..".
std::string plain_path(std::string_view path) {
  std::vector<std::string_view> kept;
  const bool absolute = path.starts_with('/');
  bool open = path.ends_with("/.") || path.ends_with("/..") || path == "." || path == "..";
  for (size_t begin = absolute ? 1 : 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part == ".." && !kept.empty()) kept.pop_back();
    if (part != "." && part != "..") kept.push_back(part);
  }
  std::string out = absolute ? "/" : "";
  for (size_t i = 0; i < kept.size(); ++i) {
    if (i > 0) out += '/';
    out += kept[i];
  }
  return open && !out.ends_with('/') ? out + '/' : out;
}

// Resolves `reference` against `base` (RFC 3986, section 5). A fragment of the base is dropped.
std::string resolve_uri(std::string_view base, std::string_view reference) {
  const UriParts from = parts_of(base);
  UriParts to = parts_of(reference);
  std::string path(to.path);
  if (!to.scheme.empty()) return std::string(reference);
  to.scheme = from.scheme;
  if (to.authority.empty()) {
    to.authority = from.authority;
    if (path.empty()) {
      path = from.path;
      if (to.query.empty()) to.query = from.query;
    } else if (!path.starts_with('/')) {
      const size_t slash = from.path.rfind('/');
      const std::string folder = slash != from.path.npos   ? std::string(from.path.substr(0, slash + 1))
                                 : !from.authority.empty() ? "/"
                                                           : "";
      path = plain_path(folder + path);
    } else {
      path = plain_path(path);
    }
  }
  std::string out;
  for (const std::string_view part : {to.scheme, to.authority, std::string_view(path), to.query, to.fragment}) {
    out += part;
  }
  return out;
}

}  // namespace

struct PatternSearch::Compiled {
  Compiled(ByteAutomaton its, CompileBudget& budget)
      : automaton(std::move(its)), configs(automaton, {.max_bytes = 8u << 20}), held(budget) {}

  const ByteAutomaton automaton;
  Configurations configs;
  HeldBytes held;
};

PatternSearch::PatternSearch(CompileBudget& budget) : budget_(&budget) {}
PatternSearch::PatternSearch(PatternSearch&&) noexcept = default;
PatternSearch::~PatternSearch() = default;

Result<std::unique_ptr<PatternSearch::Compiled>> PatternSearch::compile(std::string_view pattern) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("pattern");
  const CharWriter write = [&](const CodePointSet& set) { return rules.chars(set); };
  TRY_ASSIGN(const ExprId expr, compile_pattern(pattern, RegexMatch::kSearch, write, rules));
  rules.define(root, expr);
  TRY_ASSIGN(ByteAutomaton automaton, ByteAutomaton::compile(rules));
  budget_->spend(pattern.size() + automaton.n_states() + automaton.n_edges());
  return std::make_unique<Compiled>(std::move(automaton), *budget_);
}

Result<bool> PatternSearch::finds(std::string_view pattern, std::string_view text) {
  auto known = known_.find(pattern);
  if (known == known_.end()) known = known_.emplace(std::string(pattern), compile(pattern)).first;
  TRY(known->second.status());
  Compiled& compiled = **known->second;
  Configurations& configs = compiled.configs;
  const uint64_t before = configs.n_work();
  bool found = false;
  for (size_t n_tried = 0;; ++n_tried) {
    configs.begin_work();
    ConfigId config = configs.start();
    for (const char c : text) config = configs.step(config, static_cast<uint8_t>(c));
    found = configs.may_end(config);
    if (configs.limit_reached() == Configurations::LimitReached::kNone) break;
    const bool memory = configs.limit_reached() == Configurations::LimitReached::kMemory;
    configs.clear();
    if (memory && n_tried == 0) continue;
    return {ErrorCode::kLimitExceeded, "the pattern takes too much time or memory to be searched for"};
  }
  budget_->spend(text.size() + (configs.n_work() - before) * CompileBudget::kItemCost);
  compiled.held.set(compiled.automaton.n_bytes() + configs.n_bytes());
  TRY(budget_->status("the pattern"));
  return found;
}

namespace {

constexpr size_t kMostPlaceDepth = 500;
constexpr size_t kMostIgnored = 50;
constexpr int kMostNested = 100;
constexpr size_t kBytesOfPlace = 250;  // approximate bytes of a place (a value in the schema), with its index entries

// Keywords whose value is a schema or contains schemas.
constexpr std::array<std::string_view, 12> kOfSchema = {
    "items",    "additionalItems",  "additionalProperties", "propertyNames",        "not", "if", "then", "else",
    "contains", "unevaluatedItems", "contentSchema",        "unevaluatedProperties"};
constexpr std::array<std::string_view, 9> kOfSchemas = {"allOf",       "anyOf",       "oneOf",
                                                        "prefixItems", "properties",  "patternProperties",
                                                        "$defs",       "definitions", "dependentSchemas"};

// Appends the canonical text of a value. Equal values have the same text.
void append_value(const Json& value, std::string& out) {
  if (value.is_number()) {
    const Decimal number = decimal_of(value);
    out += (number.negative ? "-" : "") + number.whole + '.' + number.fraction;
  } else if (value.is_array()) {
    out += '[';
    for (const Json& item : value) append_value(item, out), out += ',';
    out += ']';
  } else if (value.is_object()) {
    std::vector<std::pair<std::string_view, const Json*>> items;
    for (const auto& item : value.items()) items.emplace_back(item.key(), &item.value());
    std::ranges::sort(items);
    out += '{';
    for (const auto& [key, part] : items) {
      out += std::to_string(key.size()) + ':';
      out += key;
      append_value(*part, out);
    }
    out += '}';
  } else {
    out += json_to_string(value);
  }
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) { return at < text.size() ? hex_digit(text[at]) : -1; };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Returns a segment of a JSON pointer with its escapes decoded (RFC 6901).
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

SchemaDocument::Role SchemaDocument::role_of(const std::string& keyword, const Json& value) {
  if (std::ranges::find(kOfSchemas, keyword) != kOfSchemas.end()) return Role::kSchemas;
  if (std::ranges::find(kOfSchema, keyword) == kOfSchema.end()) return Role::kValue;
  return value.is_array() ? Role::kSchemas : Role::kSchema;
}

namespace {

// True if the schema declares a draft before 2019-09.
bool declares_early_draft(const Json& root) {
  if (!root.is_object() || !root.contains("$schema") || !root.at("$schema").is_string()) return false;
  const std::string& name = root.at("$schema").get_ref<const std::string&>();
  for (const char* draft : {"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"}) {
    if (name.find(draft) != name.npos) return true;
  }
  return false;
}

}  // namespace

Result<SchemaDocument> SchemaDocument::create(const Json& root, bool strict, bool implies_objects,
                                              CompileBudget& budget) {
  SchemaDocument out(budget, strict, implies_objects);
  out.refs_stand_alone_ = declares_early_draft(root);
  out.resources_.push_back({"", 0});
  out.add_place(root, {.json = &root, .parent = 0, .index = 0, .key = nullptr, .resource = 0, .first_like = 0},
                Role::kSchema, 0);
  TRY(out.status_);
  TRY(budget.status("schema"));
  return out;
}

void SchemaDocument::refuse(PlaceId place, std::string_view keyword, std::string_view what) {
  if (status_.ok()) status_ = schema_error(ErrorCode::kInvalidArgument, pointer(place), keyword, what);
}

// Adds a place (a value of the schema's JSON). Sets its first_like, the first place with equal content: two objects or
// arrays have equal content if their parts have the same first_like (hash-consing).
PlaceId SchemaDocument::add_place(const Json& json, Place place, Role role, size_t depth) {
  if (depth > kMostPlaceDepth) status_ = {ErrorCode::kLimitExceeded, "schema: nested too deeply"};
  if (!status_.ok() || !budget_->spend(1) || !budget_->hold(kBytesOfPlace)) return 0;
  const auto id = static_cast<PlaceId>(places_.size());
  place.json = &json;
  places_.push_back(place);
  place_of_.emplace(&json, id);
  if (role == Role::kSchema && json.is_object()) add_names_of(id);
  const uint32_t resource = places_[id].resource;
  const bool derived = place.derived;
  const std::string opening = places_[id].marked ? "!" : "{";
  std::string content = json.is_object() ? opening + std::to_string(resource) : json.is_array() ? "[" : "";
  const auto add_child = [&](const Json& value, uint32_t index, const std::string* key) {
    const Role its = role == Role::kSchemas                    ? Role::kSchema
                     : role == Role::kSchema && key != nullptr ? role_of(*key, value)
                                                               : Role::kValue;
    const PlaceId child = add_place(value,
                                    {.json = &value,
                                     .parent = id,
                                     .index = index,
                                     .key = key,
                                     .resource = resource,
                                     .first_like = 0,
                                     .derived = derived},
                                    its, depth + 1);
    if (status_.ok() && budget_->ok()) content += ',' + std::to_string(places_[child].first_like);
  };
  if (json.is_object()) {
    for (const auto& item : json.items()) {
      if (item.value().is_binary()) continue;  // skip the value of kDerivedMark, which is no JSON text
      content += ',' + std::to_string(item.key().size()) + ':' + item.key();
      add_child(item.value(), 0, &item.key());
    }
  } else if (json.is_array()) {
    for (uint32_t i = 0; i < json.size(); ++i) add_child(json[i], i, nullptr);
  } else {
    content = json_to_string(json);
  }
  if (role == Role::kSchema && json.is_object() && json.size() == 1 && json.contains("not")) {
    places_[id].negated = places_[place_of_.at(&json.at("not"))].first_like;
  }
  budget_->spend(content.size() / 8);
  places_[id].first_like = contents_.emplace(std::move(content), id).first->second;
  return id;
}

void SchemaDocument::add_names_of(PlaceId place) {
  const Json& json = *places_[place].json;
  const auto text_of = [&](const char* keyword) -> const std::string* {
    const auto found = json.find(keyword);
    return found == json.end() || !found->is_string() ? nullptr : &found->get_ref<const std::string&>();
  };
  const bool is_new_id = text_of("$id") != nullptr;
  const std::string* id = text_of(is_new_id ? "$id" : "id");   // draft 4 has `id`
  const bool is_name = id != nullptr && id->starts_with('#');  // drafts before 2019-09 write anchors as ids: "#name"
  if (places_[place].derived) {  // a derived schema copies parts of the document, whose ids are registered already
    places_[place].marked = json.contains(kDerivedMark) && json.at(kDerivedMark).is_binary();
    if (id == nullptr || is_name) return;
    const auto found = resource_of_.find(address_of(*id, place));
    if (found != resource_of_.end()) places_[place].resource = found->second;
    return;
  }
  if (id != nullptr && !is_new_id) {  // skip an `id` that appeared before: it may be only an annotation
    const std::string address = address_of(*id, place);
    const bool is_known =
        is_name ? anchors_.contains(std::pair(places_[place].resource, id->substr(1))) : resource_of_.contains(address);
    if (is_known) id = nullptr;
  }
  if (id != nullptr && is_name) {
    add_anchor(place, id->substr(1));
  } else if (id != nullptr) {
    std::string uri = address_of(*id, place);
    const auto number = static_cast<uint32_t>(place == 0 ? 0 : resources_.size());
    if (!resource_of_.emplace(uri, number).second) refuse(place, "$id", "the address appears twice");
    if (place == 0) {
      resources_[0].uri = std::move(uri);
    } else {
      resources_.push_back({std::move(uri), place});
    }
    places_[place].resource = number;
  }
  for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
    if (const std::string* name = text_of(keyword)) add_anchor(place, *name);
  }
}

std::string SchemaDocument::address_of(const std::string& id, PlaceId place) const {
  std::string uri = resolve_uri(resources_[places_[place].resource].uri, id);
  uri.resize(std::min(uri.find('#'), uri.size()));
  return uri;
}

void SchemaDocument::add_anchor(PlaceId place, const std::string& name) {
  if (anchors_.emplace(std::pair(places_[place].resource, name), place).second) return;
  refuse(place, "$anchor", "the name appears twice");
}

std::string SchemaDocument::pointer(PlaceId place) const {
  std::vector<PlaceId> path;
  for (PlaceId at = place; at != 0; at = places_[at].parent) {
    if (places_[at].derived && !places_[places_[at].parent].derived) path.clear();
    const bool is_named = places_[at].key != nullptr || !places_[at].derived || places_[places_[at].parent].derived;
    if (is_named) path.push_back(at);
  }
  std::string out = "#";
  for (size_t i = path.size(); i-- > 0;) {
    const Place& step = places_[path[i]];
    out = child_pointer(out, step.key != nullptr ? *step.key : std::to_string(step.index));
  }
  return out;
}

std::string SchemaDocument::pointer_of(SchemaId schema) const {
  return sets_[schema].empty() ? "#" : pointer(sets_[schema][0]);
}

SchemaId SchemaDocument::at(const Json& place) { return schema_of(place_of_.at(&place)); }

SchemaId SchemaDocument::schema_of(PlaceId place) {
  const Json& json = *places_[place].json;
  if (json.is_boolean()) return json.get<bool>() ? kAnySchema : kNoSchema;
  if (json.is_object() && json.empty()) return kAnySchema;
  const auto [found, is_new] =
      set_numbers_.emplace(std::vector<PlaceId>{places_[place].first_like}, static_cast<SchemaId>(sets_.size()));
  if (is_new) sets_.push_back(found->first);
  return found->second;
}

SchemaId SchemaDocument::conjunction(SchemaId a, SchemaId b) {
  if (a == b || b == kAnySchema) return a;
  if (a == kAnySchema) return b;
  if (a == kNoSchema || b == kNoSchema) return kNoSchema;
  if (a > b) std::swap(a, b);
  const auto [known, is_new] = unions_.emplace(uint64_t{a} << 32 | b, 0);
  if (!is_new) return known->second;
  std::vector<PlaceId> all;
  std::ranges::set_union(sets_[a], sets_[b], std::back_inserter(all));
  for (const PlaceId place : all) {
    if (places_[place].negated == 0 || !std::ranges::binary_search(all, places_[place].negated)) continue;
    return known->second = kNoSchema;  // no value satisfies a schema and its negation
  }
  budget_->spend(all.size() + 20);
  budget_->hold(2 * all.size() * sizeof(PlaceId) + kBytesOfPlace);
  const auto [found, is_new_set] = set_numbers_.emplace(std::move(all), static_cast<SchemaId>(sets_.size()));
  if (is_new_set) sets_.push_back(found->first);
  return known->second = found->second;
}

uint32_t SchemaDocument::value_number(const Json& value) {
  std::string text;
  append_value(value, text);
  budget_->spend(text.size() / 8 + 4);
  return value_numbers_.emplace(std::move(text), static_cast<uint32_t>(value_numbers_.size())).first->second;
}

Status SchemaDocument::spend(uint64_t n, SchemaId where) const {
  return budget_->spend(n) ? Status() : budget_->status("schema: " + pointer_of(where));
}

Result<PlaceId> SchemaDocument::resolve(const std::string& reference, PlaceId from) const {
  const size_t hash = std::min(reference.find('#'), reference.size());
  uint32_t resource = places_[from].resource;
  if (hash > 0) {
    const auto found = resource_of_.find(resolve_uri(resources_[resource].uri, reference.substr(0, hash)));
    if (found == resource_of_.end()) {
      return schema_error(ErrorCode::kUnsupported, pointer(from), "$ref",
                          "\"" + reference + "\" is in another document");
    }
    resource = found->second;
  }
  const PlaceId root = resources_[resource].root;
  const std::string fragment =
      percent_decoded(std::string_view(reference).substr(std::min(hash + 1, reference.size())));
  if (fragment.empty()) return root;
  const auto missing = [&] {
    return schema_error(ErrorCode::kInvalidArgument, pointer(from), "$ref",
                        "\"" + reference + "\" is not in the schema");
  };
  if (!fragment.starts_with('/')) {
    const auto found = anchors_.find(std::pair(resource, fragment));
    return found == anchors_.end() ? Result<PlaceId>(missing()) : found->second;
  }
  const auto follow = [&](const Json* at) {
    for (size_t begin = 1; at != nullptr;) {
      const size_t end = std::min(fragment.find('/', begin), fragment.size());
      at = child_of(*at, unescaped_name(std::string_view(fragment).substr(begin, end - begin)));
      if (end == fragment.size()) break;
      begin = end + 1;
    }
    return at;
  };
  const Json* at = follow(places_[root].json);
  // In an inner schema with an `id`, also resolve against the whole document: many such schemas have references
  // relative to the document.
  const bool has_old_id = places_[root].json->is_object() && !places_[root].json->contains("$id");
  if (at == nullptr && hash == 0 && has_old_id) at = follow(places_[0].json);
  return at == nullptr ? Result<PlaceId>(missing()) : place_of_.at(at);
}

Status SchemaDocument::NestedRead::check(PlaceId place) const {
  if (document_.n_nested_ <= kMostNested) return {};
  return schema_error(ErrorCode::kInvalidArgument, document_.pointer(place), "$ref", "the schema refers to itself");
}

void SchemaDocument::note_ignored(PlaceId place, std::string_view keyword) {
  if (places_[place].derived || ignored_.size() >= kMostIgnored) return;
  std::string name = child_pointer(pointer(place), keyword);
  if (ignored_names_.insert(name).second) ignored_.push_back(std::move(name));
}

}  // namespace ibid
