peer alice
