#include "templates/jinja/interpreter.h"

#include <new>

#include "templates/jinja/executor.h"
#include "templates/jinja/failure.h"

namespace ibid::jinja {

Result<RunOutput> run(const Program& program, const RunInput& input) {
  try {
    return Executor(program, input).run();
  } catch (const Failure& failure) {
    return Status(failure.code, failure.message);
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::kOutOfMemory, "no memory left to render the template");
  }
}

}  // namespace ibid::jinja
