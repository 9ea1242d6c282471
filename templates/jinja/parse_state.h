// ParseState: what the parsers of one template share. Lives as long as they do; for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/token_stream.h"

namespace ibid::jinja {

// The names of a template, each with its number.
class SymbolTable {
 public:
  SymbolTable() {
    for (const char* name : {"loop", "caller", "varargs", "kwargs"}) intern(name);  // Program::kLoopSymbol ...
  }
  Symbol intern(const std::string& name) {
    const auto [it, is_new] = symbols_.emplace(name, static_cast<Symbol>(names_.size()));
    if (is_new) names_.push_back(name);
    return it->second;
  }
  std::vector<std::string> take_names() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, Symbol> symbols_;
};

// Filters and tests that there are not. As in Jinja they end the parsing, except where a condition decides
// whether they are reached: those are errors of the render that reaches them.
class UnknownNames {
 public:
  void add(int line, std::string message) {
    if (n_branches_ == 0) found_.emplace_back(line, std::move(message));
  }
  // {% if %} begins and ends: nothing is noted between.
  void enter_branches() { ++n_branches_; }
  void leave_branches() { --n_branches_; }
  // That `a if b else c` is one is known only behind a: what was noted since it began is forgotten.
  size_t size() const { return found_.size(); }
  void forget_from(size_t size) { found_.resize(size); }

  void fail_at_first() const {
    if (!found_.empty()) fail_syntax(found_[0].first, found_[0].second);
  }

 private:
  int n_branches_ = 0;
  std::vector<std::pair<int, std::string>> found_;  // line, message
};

struct ParseState {
  ParseState(std::vector<Token> all_tokens, uint32_t max_depth) : tokens(std::move(all_tokens), max_depth) {}

  TokenStream tokens;
  SymbolTable symbols;
  UnknownNames unknown;
  MacroNode* macro = nullptr;  // around what is read: it learns whether its body uses caller, varargs and kwargs
};

}  // namespace ibid::jinja
