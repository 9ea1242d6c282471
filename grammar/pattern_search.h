// PatternSearch: whether patterns of a schema are found in names and values of it. Each pattern is compiled once, and
// what is found out about it is kept. Not thread-safe. The budget must outlive it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "grammar/compile_budget.h"

namespace ibid {

class PatternSearch {
 public:
  explicit PatternSearch(CompileBudget& budget);
  PatternSearch(PatternSearch&&) noexcept;
  ~PatternSearch();

  // Whether the pattern matches within `text`. Errors: those of compiling it; kLimitExceeded, kCancelled.
  Result<bool> finds(std::string_view pattern, std::string_view text);
  size_t n_compiled() const { return known_.size(); }

 private:
  struct Compiled;
  Result<std::unique_ptr<Compiled>> compile(std::string_view pattern);

  CompileBudget* budget_;
  std::map<std::string, Result<std::unique_ptr<Compiled>>, std::less<>> known_;
};

}  // namespace ibid
