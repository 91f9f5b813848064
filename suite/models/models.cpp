#include "reports/error.h"
