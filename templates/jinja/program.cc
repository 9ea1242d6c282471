#include "templates/jinja/program.h"

#include "templates/jinja/failure.h"
#include "templates/jinja/lexer.h"
#include "templates/jinja/parser.h"

namespace ibid::jinja {

Result<Program> Program::compile(std::string_view source, const TemplateBudget& budget) {
  if (source.size() > kMaxSourceBytes) {
    return Status(ErrorCode::kTemplateBudget, "the template has " + std::to_string(source.size()) +
                                                  " bytes; at most " + std::to_string(kMaxSourceBytes) +
                                                  " are read");
  }
  try {
    Parser parser(tokenize(source), budget.max_depth);
    Program program;
    program.body_ = parser.parse();
    program.names_ = parser.take_names();
    return program;
  } catch (const Failure& failure) {
    return Status(failure.code, failure.message);
  }
}

}  // namespace ibid::jinja
