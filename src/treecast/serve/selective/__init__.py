"""Selective publishing in real processes: publishers and their files, brokers of all levels, members.

homes           the directories of publishers and of members
publishers      the documents of a service, and what doors do with them
source_process  the source of a network, beside the doors of a service
broker_process  a broker of some level
member_process  a member that follows its view
pages, forms    what the HTTP door has
"""
