#include "grammar/grammar.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/byte_automaton.h"
#include "grammar/grammar_rules.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_document.h"

namespace ibid {
namespace {

using Call = RequiredCalls::Call;
using Form = ArgumentNotation::Form;

constexpr size_t kMostBranches = 64;  // maximum number of alternatives of a value, after anyOf and oneOf are expanded
constexpr size_t kMostBareDepth = 6;  // kBare: maximum nesting of values whose schema constrains their content
constexpr size_t kMostAnyDepth = 2;   // kBare: maximum nesting of objects and arrays whose schema allows any content
constexpr const char* kAnyKey = "[a-zA-Z_][a-zA-Z0-9_.-]*";

std::string_view without_end_spaces(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n");
  return text.substr(0, last == text.npos ? 0 : last + 1);
}

void append(Call& call, Call more) { std::move(more.begin(), more.end(), std::back_inserter(call)); }

Call either(std::vector<Call> alternatives) {
  if (alternatives.size() == 1) return std::move(alternatives.front());
  Call call(1);
  call.front().one_of = std::move(alternatives);
  return call;
}

class ArgumentWriter {
 public:
  ArgumentWriter(SchemaDocument& document, const ArgumentNotation& notation)
      : document_(document), notation_(notation) {}

  Result<Call> arguments() {
    TRY_ASSIGN(const SchemaPart part, read_schema(document_, document_.root()));
    if (!part.choices.empty()) {
      return schema_error(ErrorCode::kUnsupported, place_of(part.choices.front()), "",
                          "choices between whole objects are not supported for arguments that are not JSON");
    }
    TRY(check_positive(part));
    return object(part, kMostBareDepth);
  }

 private:
  struct Member {
    Call call;
    bool required;
  };

  Result<Call> object(const SchemaPart& part, size_t depth) {
    const PropertyIndex index(part);
    std::vector<Member> members;
    for (const auto& [name, schema] : part.properties) {
      const bool required = index.requires_name(name);
      if (schema == kNoSchema && !required) continue;
      TRY_ASSIGN(Call call, member({{.words = std::string(name)}}, schema, depth));
      members.push_back({std::move(call), required});
    }
    for (const std::string_view name : part.required) {
      if (index.find(name) != nullptr) continue;
      TRY_ASSIGN(Call call, member({{.words = std::string(name)}}, part.other_properties, depth));
      members.push_back({std::move(call), true});
    }
    Call free;
    const bool takes_any_key = notation_.form != Form::kKeywords && notation_.after_closing_key.empty();
    if (members.empty() && !ObjectCompiler::is_closed(document_, part) && takes_any_key) {
      TRY_ASSIGN(Grammar key, compile_regex(kAnyKey));
      TRY_ASSIGN(free, member({{.grammar = std::move(key)}}, part.other_properties, depth));
    }
    return in_brackets(members, std::move(free));
  }

  // Returns the grammar of all arguments, in brackets where the notation has them. `free`: an argument that may occur
  // any number of times; empty: there is no such argument.
  Call in_brackets(const std::vector<Member>& members, Call free) const {
    if (notation_.form == Form::kMarked) {
      Call all;
      for (const Member& one : members) append(all, one.required ? one.call : either({one.call, {}}));
      if (!free.empty()) all.push_back({.one_of = {std::move(free)}, .repeats = true});
      return all;
    }
    const bool bare = notation_.form == Form::kBare;
    Call all = {{.words = bare ? "{" : "("}};
    append(all, free.empty() ? separated(members, bare ? "," : ", ") : any_number_of(std::move(free)));
    append(all, {{.words = bare ? "}" : ")"}});
    return all;
  }

  // Returns the members in order, with separators between them. The loop builds the result from the last member back.
  // For each i, `first` matches the members from i on if no member precedes them; `after` matches the same members if
  // one does.
  static Call separated(const std::vector<Member>& members, const std::string& separator) {
    Call first, after;
    for (size_t i = members.size(); i-- > 0;) {
      Call here = members[i].call;
      append(here, after);
      first = members[i].required ? std::move(here) : either({std::move(here), std::move(first)});
      Call next = {{.words = separator}};
      append(next, members[i].call);
      if (!members[i].required) next = either({std::move(next), {}});
      append(next, std::move(after));
      after = std::move(next);
    }
    return first;
  }

  static Call any_number_of(Call one) {
    Call more = {{.words = ","}};
    append(more, one);
    append(one, {{.one_of = {std::move(more)}, .repeats = true}});
    return either({std::move(one), {}});
  }

  Result<Call> member(Call key, SchemaId schema, size_t depth) {
    if (notation_.form == Form::kMarked) {
      std::string end = notation_.after_value;
      if (!notation_.after_closing_key.empty()) end += key.front().words + notation_.after_closing_key;
      TRY_ASSIGN(Call values, marked_value(schema, end));
      Call call = {{.words = notation_.before_key}};
      append(call, std::move(key));
      append(call, std::move(values));
      return call;
    }
    Call value;
    if (notation_.form == Form::kKeywords) {
      TRY_ASSIGN(Grammar grammar, json(schema));
      value = {{.grammar = std::move(grammar)}};
    } else {
      TRY_ASSIGN(value, bare_value(schema, depth));
    }
    append(key, {{.words = notation_.form == Form::kKeywords ? "=" : ":"}});
    append(key, std::move(value));
    return key;
  }

  // --- values

  // Returns the grammar of the JSON texts of those values of the schema that have one of `types`.
  Result<Grammar> json(SchemaId schema, unsigned types = kAllTypes) {
    GrammarRules rules;
    TRY(SchemaCompiler(document_, rules, {}).compile(schema, types));
    return make_grammar(std::move(rules), "schema");
  }

  // Expands anyOf and oneOf of `part`: appends to `branches` one SchemaPart for each way to choose a branch of every
  // anyOf and oneOf.
  Status collect(SchemaPart part, std::vector<SchemaPart>& branches) {
    if (branches.size() == kMostBranches) {
      return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(part.schema), "", "too many choices");
    }
    if (part.choices.empty()) {
      TRY(check_positive(part));
      branches.push_back(std::move(part));
      return {};
    }
    if (part.choices.size() > kMostBranches) {
      return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(part.schema), "", "too many choices");
    }
    const SchemaPart::Choice choice = std::move(part.choices.front());
    part.choices.erase(part.choices.begin());
    for (const SchemaId branch : choice.branches) {
      if (++n_choices_ > kMostBranches * kMostBranches) {
        return schema_error(ErrorCode::kLimitExceeded, place_of(choice), "", "choices are nested too deeply");
      }
      TRY_ASSIGN(const SchemaPart own, read_schema_to_merge(document_, branch));
      TRY_ASSIGN(SchemaPart merged, merge_parts(document_, part, own));
      TRY(collect(std::move(merged), branches));
    }
    return {};
  }

  Status check_positive(const SchemaPart& part) const {
    const bool is_positive = part.excluded.empty() && part.other_patterns.empty() && part.other_formats.empty() &&
                             part.names_outside.empty() && part.unevaluated_properties == kAnySchema &&
                             part.unevaluated_items == kAnySchema;
    if (is_positive) return {};
    return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part.schema), "",
                        "negations are not supported for arguments that are not JSON");
  }

  Result<std::vector<SchemaPart>> branches_of(SchemaId schema) {
    n_choices_ = 0;
    TRY_ASSIGN(SchemaPart part, read_schema(document_, schema));
    std::vector<SchemaPart> branches;
    TRY(collect(std::move(part), branches));
    return branches;
  }

  static bool has_type(const SchemaPart& part, unsigned types) {
    if (!part.values) return (part.types & types) != 0;
    return std::ranges::any_of(
        *part.values, [&](const ListedValue& value) { return (type_of(*value.json) & part.types & types) != 0; });
  }

  // Returns the grammar of a value in the notation kMarked, with its markers. end: the text after the value.
  Result<Call> marked_value(SchemaId schema, const std::string& end) {
    TRY_ASSIGN(const std::vector<SchemaPart> branches, branches_of(schema));
    std::vector<Call> alternatives;
    bool others = false;
    for (const SchemaPart& branch : branches) {
      others |= has_type(branch, kAllTypes & ~kStringType);
      add_python_words(branch, end, alternatives);
      if (!has_type(branch, kStringType)) continue;
      TRY(add_strings(branch, notation_.before_value, end, alternatives));
    }
    if (others) {
      TRY_ASSIGN(Grammar grammar, json(schema, kAllTypes & ~kStringType));
      alternatives.push_back({{.words = notation_.before_other_value, .grammar = std::move(grammar)}, {.words = end}});
    }
    if (alternatives.empty()) return no_value(schema);
    return either(std::move(alternatives));
  }

  // Adds True, False and None if the schema allows them: templates print values in Python's spelling, and models repeat
  // it.
  void add_python_words(const SchemaPart& part, const std::string& end, std::vector<Call>& alternatives) {
    const auto add = [&](const Json& value, const char* word) {
      const uint32_t number = document_.value_number(value);
      const bool listed = !part.values || std::ranges::any_of(*part.values, [&](const ListedValue& other) {
        return other.number == number;
      });
      const bool allowed = (part.types & type_of(value)) != 0 && listed;
      if (allowed) alternatives.push_back({{.words = notation_.before_other_value + word + end}});
    };
    add(Json(true), "True");
    add(Json(false), "False");
    add(Json(), "None");
  }

  // Adds to `alternatives` the strings that `part` allows, written without quotes between the markers `begin` and
  // `end`.
  Status add_strings(const SchemaPart& part, const std::string& begin, const std::string& end,
                     std::vector<Call>& alternatives) {
    if (part.values) {
      for (const ListedValue& value : *part.values) {
        if (!value.json->is_string()) continue;
        const std::string& text = value.json->get_ref<const std::string&>();
        TRY_ASSIGN(const bool allowed, string_allowed(document_, part, text));
        if (allowed) alternatives.push_back({{.words = begin + text + end}});
      }
    } else if (part.asks_of_strings()) {
      TRY_ASSIGN(Grammar grammar, raw_grammar(part));
      alternatives.push_back({{.words = begin, .grammar = std::move(grammar)}, {.words = end}});
    } else {
      const std::string_view solid_end = without_end_spaces(end);
      alternatives.push_back(
          {{.words = begin, .text_up_to = std::string(solid_end)}, {.words = end.substr(solid_end.size())}});
    }
    return {};
  }

  Result<Grammar> raw_grammar(const SchemaPart& part) const {
    if (part.patterns.size() + part.formats.size() + (part.length.any() ? 1 : 0) != 1) {
      return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part.schema), "",
                          "only one of pattern, format and length is supported for strings that are not JSON");
    }
    const std::string any = "[\\s\\S]";
    if (part.length.any()) {
      const std::string most = part.length.max == kUnbounded ? "" : std::to_string(part.length.max);
      return compile_regex(any + "{" + std::to_string(part.length.min) + "," + most + "}");
    }
    if (!part.formats.empty()) {
      return compile_regex(format_pattern(part.formats[0].first));
    }
    GrammarRules rules;
    const RuleId root = rules.add_rule("pattern");
    const CharWriter write = [&](const CodePointSet& set) { return rules.chars(set); };
    const Result<ExprId> expr = compile_pattern(part.patterns[0].first, RegexMatch::kSearch, write, rules);
    if (!expr.ok()) {
      return schema_error(expr.status().code(), pointer_of_text(document_, part.patterns[0].second, "pattern"), "",
                          expr.status().message());
    }
    rules.define(root, *expr);
    return make_grammar(std::move(rules), "pattern");
  }

  Status no_value(SchemaId schema) const {
    return schema_error(ErrorCode::kInvalidArgument, document_.pointer_of(schema), "", "no value satisfies it");
  }

  Result<Call> bare_value(SchemaId schema, size_t depth) {
    TRY_ASSIGN(const std::vector<SchemaPart> branches, branches_of(schema));
    std::vector<Call> alternatives;
    bool scalars = false;
    for (const SchemaPart& branch : branches) {
      scalars |= has_type(branch, kNullType | kBooleanType | kIntegerType | kFractionType);
      if (has_type(branch, kStringType)) TRY(add_strings(branch, notation_.quote, notation_.quote, alternatives));
      if (branch.values) {
        if (!has_type(branch, kArrayType | kObjectType)) continue;
        return schema_error(ErrorCode::kUnsupported, document_.pointer_of(branch.schema), "enum",
                            "arrays and objects are not supported for arguments that are not JSON");
      }
      const size_t below = branch.is_unconstrained() ? std::min(depth - 1, kMostAnyDepth) : depth - 1;
      if (below == 0 && branch.is_unconstrained()) continue;
      if (below == 0 && has_type(branch, kArrayType | kObjectType)) {
        return schema_error(ErrorCode::kUnsupported, document_.pointer_of(branch.schema), "",
                            "values nested this deeply are not supported for arguments that are not JSON");
      }
      if (has_type(branch, kArrayType)) {
        TRY_ASSIGN(Call array, bare_array(branch, below));
        alternatives.push_back(std::move(array));
      }
      if (has_type(branch, kObjectType)) {
        TRY_ASSIGN(Call object, this->object(branch, below));
        alternatives.push_back(std::move(object));
      }
    }
    if (scalars) {
      TRY_ASSIGN(Grammar grammar, json(schema, kNullType | kBooleanType | kIntegerType | kFractionType));
      alternatives.push_back({{.grammar = std::move(grammar)}});
    }
    if (alternatives.empty()) return no_value(schema);
    return either(std::move(alternatives));
  }

  Result<Call> bare_array(const SchemaPart& part, size_t depth) {
    if (part.item_count.any() || !part.first_items.empty() || part.unique || !part.contained.empty()) {
      return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part.schema), "",
                          "counts and positions of items are not supported for arguments that are not JSON");
    }
    Call items;
    if (part.other_items != kNoSchema) {
      TRY_ASSIGN(Call item, bare_value(part.other_items, depth));
      items = any_number_of(std::move(item));
    }
    Call all = {{.words = "["}};
    append(all, std::move(items));
    append(all, {{.words = "]"}});
    return all;
  }

  // Returns the JSON pointer of the anyOf or oneOf from which the choice was read.
  std::string place_of(const SchemaPart::Choice& choice) const {
    return pointer_of_text(document_, choice.place, choice.exclusive ? "oneOf" : "anyOf");
  }

  SchemaDocument& document_;
  const ArgumentNotation& notation_;
  size_t n_choices_ = 0;  // number of branches that were expanded so far for anyOf and oneOf of the current value
};

}  // namespace

Result<Call> compile_arguments(const Json& schema, const ArgumentNotation& notation, CompileBudget* budget) {
  CompileBudget own;
  TRY_ASSIGN(SchemaDocument document, SchemaDocument::create(schema, false, true, budget != nullptr ? *budget : own));
  return ArgumentWriter(document, notation).arguments();
}

}  // namespace ibid
