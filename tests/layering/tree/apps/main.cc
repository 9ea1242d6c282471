#include "model/page.h"
#include "runtime/engine/engine.h"
