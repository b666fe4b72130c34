"""pytest puts the folder of this file on sys.path: what lies beside it all tests below import (ranks, traces)."""
