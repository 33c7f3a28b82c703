["record", "hooks", "one", "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"]
