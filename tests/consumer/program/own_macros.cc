// A source file that defines macros with names that test frameworks, loggers and ibid's sources use too.
#define CHECK(x) (40 + (x))
#define CHECK_EQ(a, b) ((a) + (b) + 1)
#define DCHECK(x) CHECK(x)
#define REQUIRE(x) CHECK(x)
#define INFO(x) CHECK(x)
#define FAIL(x) CHECK(x)
#define SECTION(x) CHECK(x)
#define TRY(x) (50 + (x))
#define TRY_ASSIGN(a, b) TRY((a) + (b))
#define LOG(x) CHECK(x)

#include <ibid/chat_session.h>
#include <ibid/constraint.h>
#include <ibid/engine.h>
#include <ibid/engine_options.h>
#include <ibid/numerics.h>
#include <ibid/result.h>
#include <ibid/sampler_options.h>
#include <ibid/session_options.h>
#include <ibid/token.h>
#include <ibid/turn.h>
#include <ibid/turn_stream.h>
#include <ibid/usage.h>

static_assert(CHECK(2) == 42 && TRY(1) == 51 && CHECK_EQ(1, 2) == 4 && TRY_ASSIGN(1, 2) == 53);

int macros_are_ours() { return CHECK(2) == 42 && ibid::Result<int>(7).value() == 7 ? 0 : 1; }
