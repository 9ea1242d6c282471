// Program: a parsed template. Immutable, safe to run from several threads at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "templates/jinja/ast.h"
#include "templates/jinja/template_budget.h"

namespace ibid::jinja {

class Program {
 public:
  // Errors: kTemplateSyntax with the line (unknown filters and tests included, where Jinja finds them at
  // compile time), kTemplateBudget for nesting beyond budget.max_depth or a source beyond kMaxSourceBytes.
  static Result<Program> compile(std::string_view source, const TemplateBudget& budget);

  const Body& body() const { return body_; }
  const std::string& name(Symbol symbol) const { return names_[symbol]; }
  size_t n_names() const { return names_.size(); }

  static constexpr size_t kMaxSourceBytes = 512u << 10;  // templates of models have 20 KB at most
  static constexpr Symbol kLoopSymbol = 0;    // names_[0] is "loop"
  static constexpr Symbol kCallerSymbol = 1;  // "caller", "varargs", "kwargs"
  static constexpr Symbol kVarargsSymbol = 2;
  static constexpr Symbol kKwargsSymbol = 3;

 private:
  Body body_;
  std::vector<std::string> names_;
};

}  // namespace ibid::jinja
