#include "runtime/engine.h"
#include "model/page.h"
