#include "model/page.h"
#include "runtime/engine.h"
