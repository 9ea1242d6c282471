#include "cache/row.h"
